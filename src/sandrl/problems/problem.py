"""The problem: one shape for every source.

MBPP's assert lists, HumanEval's `check(candidate)` and stdin programs all become checks of one of three kinds here, so
that nothing behind the loaders knows where a problem came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EXIT_STATUS: Literal["exit_status"] = "exit_status"
"""The weakest check: the program runs and exits 0."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a program.

    Attributes:
        stdin: What it reads.
        stdout: What it must print.
    """

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much a number that a program prints may differ from the one it must print; either is enough.

    Attributes:
        absolute: The difference.
        relative: The difference as a share of the number it must print.
    """

    absolute: float = 0.0
    relative: float = 0.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A task to solve, with checks of exactly one kind: `tests`, `cases`, or `check`.

    Attributes:
        task_id: Names the problem; completions refer to it.
        prompt: The task, as a model is told.
        tests: Python snippets that raise unless the code is right; each is one check.
        cases: Runs of the code as a program; each is one check.
        tolerance: How cases compare numbers; as text without one.
        check: `exit_status` where running to the end is all that is asked.
        setup: Python code that the tests need. It runs after the completion and may use what that defines (MBPP builds
            trees of the completion's own class); it is tried before it, too, for the completion that uses what it
            defines. So a completion may see it, and expected values belong in the tests.
        entry_point: Name of the function or class asked for, where one is.
        reference: A solution known to be right.
        timeout_seconds: Wall time for all checks, where the problem needs its own limit.
        check_timeout_seconds: Wall time for each check, where the problem needs its own limit.
        prelude: Python code that runs before the completion, in its namespace; empty for none.
    """

    task_id: str
    prompt: str
    tests: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    tolerance: Tolerance | None = None
    check: Literal["exit_status"] | None = None
    setup: str = ""
    entry_point: str | None = None
    reference: str | None = None
    timeout_seconds: float | None = None
    check_timeout_seconds: float | None = None
    prelude: str = ""

    @property
    def kind(self) -> str:
        """What its checks are: `tests`, `cases` or `exit_status`."""
        if self.check is not None:
            return self.check
        return "cases" if self.cases else "tests"

    @property
    def check_count(self) -> int:
        """How many checks it has."""
        return 1 if self.check is not None else len(self.cases) or len(self.tests)
