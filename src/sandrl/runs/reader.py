"""Reads a run directory: finished, killed or still being written.

A reader reports damage next to the data that it could read, and never fails because of it. Nothing is ever deleted from
a run: if a resumed job did a step again, or scored a completion again, both attempts are in the files, and the later
one counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from sandrl.errors import InputError
from sandrl.jsonl import BadRow, read_rows
from sandrl.runs.cards import Card
from sandrl.runs.config import RunConfig, read_config
from sandrl.runs.directory import is_running
from sandrl.runs.rows import (
    AnswerRow,
    EvaluationRow,
    LogRow,
    MetricsRow,
    OpinionPart,
    OpinionRow,
    ProblemRow,
    SandboxRow,
    StepRow,
    Stored,
    TrajectoryRow,
)

RowT = TypeVar("RowT", bound=Stored)
StepRowT = TypeVar("StepRowT", bound=StepRow)

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest row: a trajectory holds a completion and the output of its code; input files have a smaller limit."""


@dataclass(frozen=True, slots=True)
class Rows(Generic[RowT]):
    """The rows of one kind in a run.

    Attributes:
        is_truncated: The last line of a file is unfinished: its writer was killed there, or is just writing it.
        damaged: What is wrong with each other line that could not be read.
    """

    rows: tuple[RowT, ...]
    is_truncated: bool = False
    damaged: tuple[InputError, ...] = ()


@dataclass(slots=True)
class Damage:
    """What of a run could not be read, as in `Rows`; filled while its rows are."""

    is_truncated: bool = False
    damaged: list[InputError] = field(default_factory=list)


_NO_COMPONENTS: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class SlimRow:
    """What is counted of a row; the fields are those of `TrajectoryRow`, and one more.

    Attributes:
        contradicts_checks: Whether its single checks say something else than `passed` and `total`.
    """

    time: datetime
    job_id: str
    step: int | None
    attempt: int
    task_id: str
    reward: float | None
    status: str
    trust: str | None
    is_pass: bool
    sandboxes: int
    retries: int
    reruns: int
    canaries: int
    cells: int
    isolation: str | None
    cached: bool
    dropped: bool
    held_out: bool
    truncated: bool
    components: dict[str, float]
    second_opinion: OpinionPart | None
    finish_reason: str | None
    is_cut_off: bool
    contradicts_checks: bool


_SLIM_FIELDS = tuple(each.name for each in fields(SlimRow) if each.name != "contradicts_checks")


class _PlaceRow(StepRow):
    # Which completion a row is about, and which attempt of it: the rest of the row is left unread.
    file = TrajectoryRow.file

    index: int
    held_out: bool = False


class RunReader:
    """Reads a run.

    Raises:
        InputError: If it is no run directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: RunConfig = read_config(path)

    @property
    def is_running(self) -> bool:
        """Whether a job is writing the run now."""
        return is_running(self.path)

    def metrics(self) -> Rows[MetricsRow]:
        """Reads the metrics; of steps done more than once the latest attempt, and of its rows the last one."""
        read = _latest(self._read(MetricsRow))
        return Rows(tuple({(row.rank, row.step): row for row in read.rows}.values()), read.is_truncated, read.damaged)

    def each_metrics(self) -> Iterator[MetricsRow]:
        """Reads all rows of metrics of the first process as they were written; what cannot be read is left out."""
        return (row for row in self._each(MetricsRow, Damage()) if row.rank == 0)

    def trajectories(self) -> Rows[TrajectoryRow]:
        """Reads the completions, each with its second opinion; of steps done more than once, the latest attempt."""
        damage = Damage()
        rows = tuple(self.each_trajectory(damage))
        return Rows(rows, damage.is_truncated, tuple(damage.damaged))

    def each_trajectory(self, damage: Damage | None = None) -> Iterator[TrajectoryRow]:
        """Reads the same rows one by one: memory follows the longest row, not the run.

        What cannot be read is written down in `damage`, which is complete when the last row has come.
        """
        told = self.opinions()
        damage = Damage() if damage is None else damage
        damage.is_truncated |= told.is_truncated
        damage.damaged += told.damaged
        opinions = {_completion_of(row): row.opinion for row in told.rows}
        latest = _latest_by_unit(self._each(_PlaceRow, Damage()))
        for row in self._each(TrajectoryRow, damage):
            if row.attempt < latest.get(_unit(row), row.attempt):
                continue
            yield row.model_copy(update={"second_opinion": opinions.get(_completion_of(row))}) if opinions else row

    def each_counted(self, damage: Damage | None = None) -> Iterator[SlimRow]:
        """Reads the same rows without their texts: the values that are counted fit into memory, for every run."""
        for row in self.each_trajectory(damage):
            passed = sum(check.status == "passed" for check in row.checks)
            values = {name: _shared(getattr(row, name)) for name in _SLIM_FIELDS}
            # Of older rows nothing is said about single checks.
            contradicts_checks = (
                row.score is None and bool(row.checks) and (passed, len(row.checks)) != (row.passed, row.total)
            )
            yield SlimRow(**values, contradicts_checks=contradicts_checks)

    def opinions(self) -> Rows[OpinionRow]:
        """Reads the second opinions; of steps done more than once, the latest attempt."""
        return _latest(self._read(OpinionRow))

    def evaluations(self) -> Rows[EvaluationRow]:
        """Reads the evaluations of the policy; of those made more than once, the latest attempt."""
        return _latest(self._read(EvaluationRow))

    def answers(self) -> Rows[AnswerRow]:
        """Reads what a model answered; of completions it was asked for more than once, the latest."""
        read = self._read(AnswerRow)
        return Rows(tuple({row.index: row for row in read.rows}.values()), read.is_truncated, read.damaged)

    def cards(self) -> Rows[Card]:
        """Reads the cards of problems; of those of the same content, the latest."""
        read = self._read(Card)
        return Rows(tuple({card.key: card for card in read.rows}.values()), read.is_truncated, read.damaged)

    def problems(self) -> dict[str, ProblemRow]:
        """Reads the problems that completions of the run answer, by digest; what cannot be read is left out."""
        return {row.digest: row for row in self._each(ProblemRow, Damage())}

    def sandboxes(self) -> Rows[SandboxRow]:
        """Reads the ledger."""
        return self._read(SandboxRow)

    def log(self) -> Rows[LogRow]:
        """Reads the log."""
        return self._read(LogRow)

    def each_log(self) -> Iterator[LogRow]:
        """Reads the log line by line; what cannot be read is left out."""
        return self._each(LogRow, Damage())

    def each_sandbox(self) -> Iterator[SandboxRow]:
        """Reads the ledger line by line; what cannot be read is left out."""
        return self._each(SandboxRow, Damage())

    def _read(self, model: type[RowT]) -> Rows[RowT]:
        damage = Damage()
        rows = tuple(self._each(model, damage))
        return Rows(rows, damage.is_truncated, tuple(damage.damaged))

    def _each(self, model: type[RowT], damage: Damage) -> Iterator[RowT]:
        for file in row_files(self.path, model.file):
            for row in read_rows(file, max_line_bytes=MAX_LINE_BYTES, is_stored=True):
                if isinstance(row, BadRow):
                    if row.is_unfinished:
                        damage.is_truncated = True
                    else:
                        damage.damaged.append(row.error)
                    continue
                try:
                    valid = model.model_validate(row.value)
                except ValidationError:
                    damage.damaged.append(InputError("is not a valid row of this file", path=file, line=row.line))
                    continue
                yield valid


def row_files(run: Path, kind: str) -> list[Path]:
    """The files of a run that hold rows of a kind, rank by rank."""
    files = [run / f"{kind}.jsonl", *sorted(run.glob(f"{kind}.rank-*.jsonl"), key=_rank)]
    return [file for file in files if file.exists()]


def _latest_by_unit(rows: Iterable[StepRow]) -> dict[object, int]:
    latest: dict[object, int] = {}
    for row in rows:
        unit = _unit(row)
        latest[unit] = max(latest.get(unit, 0), row.attempt)
    return latest


def _unit(row: StepRow) -> object:
    # What a resumed job does again as a whole: a step, an evaluation, or, outside of steps, one completion.
    if not isinstance(row, TrajectoryRow | OpinionRow | _PlaceRow):
        return row.step
    return (row.rank, row.held_out, row.index) if row.step is None else (row.step, row.held_out)


def _latest(read: Rows[StepRowT]) -> Rows[StepRowT]:
    latest = _latest_by_unit(read.rows)
    rows = tuple(row for row in read.rows if row.attempt == latest[_unit(row)])
    return Rows(rows, read.is_truncated, read.damaged)


def _completion_of(row: TrajectoryRow | OpinionRow) -> tuple[object, ...]:
    # Names the completion that a row is about; positions alone repeat where a step has several calls for rewards.
    place = (row.job_id, row.rank, row.step, row.attempt, row.held_out, row.greedy, row.index)
    return (*place, row.id, row.task_id, row.sandbox_id, row.status)


def _rank(file: Path) -> int:
    digits = file.name.split(".rank-")[-1].removesuffix(".jsonl")
    return int(digits) if digits.isdecimal() else 0


def _shared(value: Any) -> Any:
    # Most rows have the same words, and no components.
    if isinstance(value, str):
        return sys.intern(value)
    return _NO_COMPONENTS if value == {} else value
