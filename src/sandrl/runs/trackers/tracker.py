"""The protocol of trackers, and the steps of a run as a tracker gets them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from sandrl.runs.rows import MetricsRow
from sandrl.runs.trackers.tables import CompletionTables, Table
from sandrl.settings import ReportTo


@dataclass(frozen=True, slots=True)
class TrackedStep:
    """One row of metrics, with what was measured of it alone.

    Attributes:
        attempt: The attempt of the run that did the step.
    """

    step: int
    attempt: int
    time: datetime
    metrics: Mapping[str, float]
    _tables: CompletionTables = field(repr=False, compare=False)

    @classmethod
    def of(cls, row: MetricsRow, tables: CompletionTables) -> TrackedStep:
        """The step of a row, with the tables that its run has of it."""
        measured = {name: value for name, value in row.metrics.items() if value is not None}
        return cls(row.step, row.attempt, row.time, measured, tables)

    @property
    def has_tables(self) -> bool:
        """Whether there is a table of its completions."""
        return self._tables.has(self.step)

    @property
    def tables(self) -> Mapping[str, Table]:
        """Tables of completions by name, read from the run."""
        return self._tables.at(self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """A run, as trackers name it.

    Attributes:
        id: The same for a resumed run, and for no other.
        options: Its options, without secrets.
    """

    path: Path
    id: str
    name: str
    command: str
    project: str
    options: Mapping[str, JsonValue]


class Tracker(Protocol):
    """Keeps a copy of a run's metrics; each of its methods may fail with any exception.

    Attributes:
        kind: What it is called in options.
        title: What users know it as.
    """

    kind: ReportTo
    title: str

    def begin(self, steps: Sequence[TrackedStep], attempt: int | None) -> str:
        """Makes its history that of these steps, whatever it has had; those of an `attempt` may follow.

        Returns:
            Where the user finds it.
        """
        ...

    def add(self, step: TrackedStep) -> None:
        """Appends a step, which is later than those before it."""
        ...

    def end(self, *, failed: bool) -> None:
        """No step follows; waits until it has everything, within limits."""
        ...


def history_of(rows: Iterable[MetricsRow]) -> list[MetricsRow]:
    """The steps that led to where a run is, of its rows in the order in which they were written.

    A resumed attempt starts from a checkpoint: the steps that an earlier one did after it are not part of its history.
    """
    history: list[MetricsRow] = []
    for row in rows:
        while history and history[-1].step >= row.step:
            history.pop()
        history.append(row)
    return history
