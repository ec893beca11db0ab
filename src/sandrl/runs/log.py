"""The log of a run: one structured line per event, in a file of its own.

Output on a terminal is lost when it scrolls away; the log keeps it, in a form that programs can read. Lines go through
the run's writer, so known secrets are masked in them as in all files of the run. Who follows a log polls its files from
the place where reading stopped, because a run may be on a network file system, which reports no changes.
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sandrl import events
from sandrl.events import LogLevel
from sandrl.files import open_regular
from sandrl.runs.config import JUDGE_AGREEMENT
from sandrl.runs.directory import is_running
from sandrl.runs.rows import LogRow, now
from sandrl.runs.writer import RunWriter

POLL_SECONDS = 0.2
_BLOCK_BYTES = 1 << 16
_LEVELS: Mapping[type[events.Event], LogLevel] = {
    events.CompletionStarted: LogLevel.DEBUG,
    events.SandboxCreated: LogLevel.DEBUG,
    events.SandboxStopped: LogLevel.DEBUG,
    events.SandboxesHeld: LogLevel.DEBUG,
    events.BudgetReached: LogLevel.WARNING,
    events.RetryScheduled: LogLevel.WARNING,
    events.CanaryFinished: LogLevel.WARNING,
    events.FlagRaised: LogLevel.WARNING,
    events.Warned: LogLevel.WARNING,
}
# Of these there are two for each completion; they hold plain values, and to validate them takes as long as the rest.
_PLAIN = frozenset({events.ExecutionFinished, events.CompletionFinished})
_Execution = TypeAdapter(events.ExecutionFinished)
_EXECUTION_FIELDS = frozenset(field.name for field in dataclasses.fields(events.ExecutionFinished))
_ORDER = tuple(LogLevel)


class RunLog:
    """Logs events of a level, and all that are more urgent: an `Emit`.

    Attributes:
        step: The training step the coming lines belong to; None outside of training.
    """

    def __init__(self, writer: RunWriter, level: LogLevel = LogLevel.INFO) -> None:
        self.step: int | None = None
        self._writer = writer
        self._lowest = _ORDER.index(level)

    def __call__(self, event: events.Event) -> None:
        """Logs an event.

        Raises:
            ServiceError: If the line could not be written.
        """
        if isinstance(event, events.JudgeMeasured):
            self._writer.keep_fact(JUDGE_AGREEMENT, _fields(event))
        level = _level(event)
        if _ORDER.index(level) >= self._lowest:
            writer = self._writer
            make = LogRow.model_construct if type(event) in _PLAIN else LogRow
            row = make(
                time=now(),
                job_id=writer.job_id,
                rank=writer.rank,
                step=self.step,
                level=level.value,
                event=_shape(type(event))[0],
                fields=_fields(event),
            )
            writer.append(row)


def logged_executions(rows: Iterable[LogRow]) -> tuple[events.ExecutionFinished, ...]:
    """The executions in a log, oldest first; lines of other versions that lack something are left out."""
    executions = []
    for row in rows:
        if row.event == _name(events.ExecutionFinished):
            known = {name: value for name, value in row.fields.items() if name in _EXECUTION_FIELDS}
            try:
                executions.append(_Execution.validate_python(known))
            except ValidationError:
                continue
    return tuple(executions)


def executions_by_step(rows: Iterable[LogRow]) -> dict[int, list[events.ExecutionFinished]]:
    """The executions in a log by their step; those outside of training count as step 0."""
    steps: defaultdict[int, list[events.ExecutionFinished]] = defaultdict(list)
    for row in rows:
        steps[row.step or 0] += logged_executions([row])
    return steps


def _level(event: events.Event) -> LogLevel:
    if isinstance(event, events.ExecutionFinished) and event.error:
        return LogLevel.ERROR
    return _LEVELS.get(type(event), LogLevel.INFO)


def _fields(event: events.Event) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name in _shape(type(event))[1]:
        value = getattr(event, name)
        if isinstance(value, events.ScoredCompletion):
            shown |= value.brief
        else:
            shown[name] = dataclasses.asdict(value) if isinstance(value, events.Opinion) else value
    return {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}


def _name(kind: type[events.Event]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


# What is written of an event of each kind: its name, and the names of its fields.
_shapes: dict[type[events.Event], tuple[str, tuple[str, ...]]] = {}


def _shape(kind: type[events.Event]) -> tuple[str, tuple[str, ...]]:
    shape = _shapes.get(kind)
    if shape is None:
        shape = _shapes[kind] = _name(kind), tuple(field.name for field in dataclasses.fields(kind))
    return shape


def follow_log(directory: Path, *, lines: int) -> Iterator[LogRow]:
    """Reads a run's log, of all its processes: its last `lines`, then new ones until no job writes the run any more.

    Yields:
        Rows, the old ones by their time; what cannot be read is left out.
    """
    places: dict[Path, int] = {}
    known: list[LogRow] = []
    for file in _files(directory):
        rows, places[file] = _last_rows(file, lines)
        known += rows
    yield from sorted(known, key=lambda row: row.time)[len(known) - min(lines, len(known)) :]
    while True:
        # Before the files are read: what a job writes last is read once more after it has ended.
        goes_on = is_running(directory)
        fresh: list[LogRow] = []
        for file in _files(directory):
            rows, places[file] = _rows_from(file, places.get(file, 0))
            fresh += rows
        yield from sorted(fresh, key=lambda row: row.time)
        if not goes_on:
            return
        time.sleep(POLL_SECONDS)


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{LogRow.file}*.jsonl"))


def _rows_from(file: Path, place: int) -> tuple[list[LogRow], int]:
    # The whole rows after a place, and the place after them.
    rows: list[LogRow] = []
    try:
        with os.fdopen(open_regular(file), "rb") as stream:
            stream.seek(place)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                place += len(line)
                rows += _parsed(line)
    except OSError:
        return rows, place
    return rows, place


def _last_rows(file: Path, lines: int) -> tuple[list[LogRow], int]:
    # The last whole rows, read from the end, and the place after them.
    try:
        with os.fdopen(open_regular(file), "rb") as stream:
            start = end = stream.seek(0, os.SEEK_END)
            tail = b""
            while start and tail.count(b"\n") <= lines:
                size = min(start, max(_BLOCK_BYTES, len(tail)))
                start -= size
                stream.seek(start)
                tail = stream.read(size) + tail
    except OSError:
        return [], 0
    whole, _, unfinished = tail.rpartition(b"\n")
    chosen = whole.split(b"\n")[-lines:] if lines and whole else []
    return [row for line in chosen for row in _parsed(line)], end - len(unfinished)


def _parsed(line: bytes) -> list[LogRow]:
    try:
        return [LogRow.model_validate_json(line)] if line.strip() else []
    except ValidationError:
        return []
