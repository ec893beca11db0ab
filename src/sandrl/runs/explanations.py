"""Why a completion failed: its failed checks, each with its source or input, the actual value and the expected one.

A trajectory's row has the results of its checks, and a problem's row the checks themselves. They are joined here, once,
for every view of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandrl.runs.rows import CheckRow, ProblemCheck, ProblemRow, TrajectoryRow

# Checks that say nothing of the code: they did not run.
_SILENT = frozenset({"passed", "not_reached", "not_run"})


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check that did not pass.

    Attributes:
        source: The test's source, or the call; empty for a case, and where the run does not have it.
        line: The line, from 1, that failed of the source, or that differs in what a case printed; None if not known.
        expected: What it should have been; None if that is not known, or stands in the source alone.
        is_hidden: Whether the prompt does not show the check; None where the run does not have the check.
    """

    number: int
    name: str
    status: str
    detail: str
    source: str
    line: int | None
    stdin: str | None
    got: str | None
    expected: str | None
    is_hidden: bool | None

    @property
    def is_explained(self) -> bool:
        """Whether more is known of it than its status and detail."""
        return any((self.source, self.stdin is not None, self.got is not None, self.expected is not None))


def failed_checks(row: TrajectoryRow, problems: Mapping[str, ProblemRow]) -> tuple[FailedCheck, ...]:
    """The checks of a trajectory that ran and did not pass, in their order, with the problems of its run by digest."""
    problem = problems.get(row.problem or "")
    known = () if problem is None else problem.checks
    return tuple(
        _failed(number, check, known[number - 1] if number <= len(known) else None)
        for number, check in enumerate(row.checks, 1)
        if check.status not in _SILENT
    )


def _failed(number: int, check: CheckRow, found: ProblemCheck | None) -> FailedCheck:
    known = found or ProblemCheck()
    return FailedCheck(
        number=number,
        name=check.name or known.name,
        status=check.status,
        detail=check.detail,
        source=known.source,
        line=check.line,
        stdin=known.stdin,
        got=check.got,
        expected=known.expected if check.expected is None else check.expected,
        is_hidden=None if found is None else known.is_hidden,
    )
