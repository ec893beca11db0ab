"""Gathers what happens in a job into metrics, and writes them step by step.

The recorder is an `Emit`: whatever a workflow tells is counted, so no workflow counts for itself. Closing it writes
what no step has written yet, however the job ends: a crash loses no number that was known.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from sandrl.errors import ServiceError
from sandrl.events import CompletionFinished, Emit, Event, ExecutionFinished, OpinionFinished, Warned, ignore
from sandrl.runs.measures import (
    ExecutionStats,
    Values,
    completion_metrics,
    execution_metrics,
    execution_stats,
    opinion_metrics,
)
from sandrl.runs.rows import MetricsRow
from sandrl.runs.writer import RunWriter


class MetricsRecorder:
    """Counts events, and writes a row of metrics for each step.

    Threads may share one.

    Args:
        writer: The run; None keeps no file.
        attempt: Which try of its steps the job makes; more than 1 in a resumed run.
        first_step: The first step the job will write; more than 0 in a resumed run.
        emit: Told what happens here.
    """

    def __init__(
        self, writer: RunWriter | None = None, *, attempt: int = 1, first_step: int = 0, emit: Emit = ignore
    ) -> None:
        self._writer = writer
        self._attempt = attempt
        self._emit = emit
        self._lock = threading.Lock()
        self._completions: list[CompletionFinished] = []
        self._executions: list[ExecutionFinished] = []
        self._opinions: list[OpinionFinished] = []
        self._next_step = first_step
        self._has_news = False

    def __call__(self, event: Event) -> None:
        """Counts an event."""
        with self._lock:
            match event:
                case CompletionFinished():
                    self._completions.append(event)
                case ExecutionFinished():
                    self._executions.append(event)
                case OpinionFinished():
                    self._opinions.append(event)
                case _:
                    return
            self._has_news = True

    def values(self) -> Values:
        """The metrics of what was counted since the last reset."""
        with self._lock:
            return self._values()

    def execution_stats(self) -> dict[str, ExecutionStats]:
        """What happened in each sandbox since the last reset, by its id."""
        with self._lock:
            return execution_stats(self._executions)

    def log(self, step: int, extra: Mapping[str, float | None] | None = None, *, reset: bool = True) -> Values:
        """Writes the metrics of a step.

        Args:
            step: The step, from 0.
            extra: What the workflow measured itself, such as the loss; wins over what was counted.
            reset: Begin to count anew; else the next row goes on from this one.

        Returns:
            What was written.

        Raises:
            ServiceError: If the row could not be written.
        """
        with self._lock:
            values = {**self._values(), **(extra or {})}
            self._next_step = max(self._next_step, step + 1)
            self._has_news = False
            if reset:
                self._completions.clear()
                self._executions.clear()
                self._opinions.clear()
        if self._writer is not None:
            row = MetricsRow(
                job_id=self._writer.job_id, rank=self._writer.rank, step=step, attempt=self._attempt, metrics=values
            )
            self._writer.write_metrics(row)
        return values

    def close(self) -> None:
        """Writes what no row has, as the step after the last one; closing twice is fine."""
        is_parents = self._writer is not None and self._writer.is_inherited
        if self._has_news and not is_parents:
            try:
                self.log(self._next_step)
            except ServiceError as error:
                # The job may be ending because of this very error, which must not be covered by another.
                self._emit(Warned(f"the last metrics are lost: {error.message}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _values(self) -> Values:
        completions = completion_metrics(self._completions) if self._completions else {}
        opinions = opinion_metrics([each.opinion for each in self._opinions])
        return {**completions, **opinions, **execution_metrics(self._executions)}
