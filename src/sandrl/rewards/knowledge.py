"""Facts about problems that a judge determined by trials without a completion.

Memory is bounded. The judge of a long process (a service) gets an unlimited number of problems; the least recently used
ones are dropped, and their trials repeated if they come again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from sandrl.problems import Problem
from sandrl.problems.store import memory_of
from sandrl.rewards.builds import Build
from sandrl.rewards.expected import Returned
from sandrl.rewards.verdict import Verdict

MOST_BYTES = 256 << 20
"""How much memory the problems of one judge may take, with what their references returned."""

_MOST_COMPLETIONS = 4096


@dataclass(slots=True, eq=False)
class Findings:
    """What is known about one problem; None where nothing is.

    Attributes:
        is_broken: Whether its setup fails by itself.
        returned: What its reference returns that calls are compared with; the verdict where that failed.
        in_doubt: The program that made one of its completions ask for an example of its language.
        compiles: Whether its own reference, which is not in Python, can be compiled.
        splits: Whether its checks can be kept apart from a completion.
        fails_apart: Whether its reference failed apart from the checks, so that it has to be tried with them.
        failed_apart: Digests of completions that failed apart from checks which need one process.
    """

    is_broken: bool | None = None
    returned: Returned | Verdict | None = None
    in_doubt: Build | None = None
    compiles: bool | None = None
    splits: bool | None = None
    fails_apart: bool = False
    failed_apart: set[bytes] = field(default_factory=set)

    def note_failed_apart(self, digest: bytes) -> None:
        """Notes a completion that failed apart from the checks."""
        if len(self.failed_apart) >= _MOST_COMPLETIONS:
            self.failed_apart.clear()
        self.failed_apart.add(digest)


class Knowledge:
    """Findings by problem.

    Args:
        max_bytes: How much memory the problems may take; the latest is kept in any case.
    """

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._found: OrderedDict[Problem, tuple[Findings, int]] = OrderedDict()

    def __len__(self) -> int:
        """About how many problems something may be known."""
        return len(self._found)

    def find(self, problem: Problem) -> Findings:
        """What is known about a problem, to be read; nothing is kept of it."""
        known = self._found.get(problem)
        if known is None:
            return Findings()
        self._found.move_to_end(problem)
        return known[0]

    def about(self, problem: Problem, more_bytes: int = 0) -> Findings:
        """What is known about a problem, to be added to.

        Args:
            problem: The problem.
            more_bytes: How much memory what is added takes.
        """
        findings, size = self._found.pop(problem, (Findings(), 0))
        grown = (size or memory_of(problem)) + more_bytes
        self._found[problem] = findings, grown
        self._bytes += grown - size
        while self._bytes > self._max_bytes and len(self._found) > 1:
            self._bytes -= self._found.popitem(last=False)[1][1]
        return findings
