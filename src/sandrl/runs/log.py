"""The log of a run: one structured line per event, in a file of its own.

Output on a terminal is lost when it scrolls away; the log keeps it, in a form that programs can read. Lines go through
the run's writer, so known secrets are masked in them as in all files of the run.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sandrl import events
from sandrl.events import LogLevel
from sandrl.runs.rows import LogRow, now
from sandrl.runs.writer import RunWriter

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
