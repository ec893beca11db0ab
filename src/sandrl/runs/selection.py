"""Selects the trajectories that a user requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandrl.errors import UsageError
from sandrl.runs.rows import TrajectoryRow


@dataclass(frozen=True, slots=True)
class RowSelection:
    """What trajectories must be like to be shown; all conditions together.

    Attributes:
        grep: Only those in which this regular expression is found, in any text they have.
    """

    failed: bool = False
    statuses: tuple[str, ...] = ()
    task_id: str | None = None
    step: int | None = None
    held_out: bool | None = None
    grep: str | None = None
    limit: int | None = None
    disagreements: bool = False
    completion_id: str | None = None
    truncated: bool = False

    def choose(self, rows: Iterable[TrajectoryRow]) -> Iterator[TrajectoryRow]:
        """Chooses from rows, in their order.

        Raises:
            UsageError: If `grep` is no regular expression.
        """
        # Now, and not when the first row is asked for: by then something is on the screen.
        return self._chosen(rows, self._pattern())

    def _chosen(self, rows: Iterable[TrajectoryRow], pattern: re.Pattern[str] | None) -> Iterator[TrajectoryRow]:
        left = self.limit
        for row in rows:
            if self._fits(row) and (pattern is None or any(pattern.search(text) for text in _texts(row))):
                yield row
                left = None if left is None else left - 1
                if left == 0:
                    return

    def _pattern(self) -> re.Pattern[str] | None:
        if self.grep is None:
            return None
        try:
            return re.compile(self.grep, re.IGNORECASE)
        except re.error as error:
            message = f"grep {self.grep!r} is not a valid regular expression: {error}"
            raise UsageError(message, fields=("grep",)) from error

    def _fits(self, row: TrajectoryRow) -> bool:
        return (
            not (self.failed and row.status == "passed")
            and (not self.statuses or row.status in self.statuses)
            and (self.task_id is None or row.task_id == self.task_id)
            and (self.completion_id is None or row.id == self.completion_id)
            and (self.step is None or row.step == self.step)
            and (self.held_out is None or row.held_out is self.held_out)
            and not (self.truncated and not row.is_cut_off)
            and not (self.disagreements and not _is_disagreement(row))
        )


def _is_disagreement(row: TrajectoryRow) -> bool:
    return row.second_opinion is not None and row.second_opinion.is_disagreement


def _texts(row: TrajectoryRow) -> Iterator[str]:
    yield from (row.id, row.task_id, row.detail, row.stdout, row.stderr, row.reasoning, *row.failures)
    yield from (check.detail for check in row.checks)
    if row.second_opinion is not None:
        yield row.second_opinion.detail
    yield from (text for text in (row.completion, row.code) if text is not None)
    for message in (*row.messages, *(each for branch in row.branches for each in branch.messages)):
        yield from (message.content, message.reasoning)
        yield from (f"{call.name} {call.arguments}" for call in message.tool_calls)
