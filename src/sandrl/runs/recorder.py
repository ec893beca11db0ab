"""Turns the events of a job, or of its log, into metrics, and writes them step by step.

The recorder is an `Emit`: it counts all events of a workflow, so no workflow counts for itself. Closing it writes the
counts that no step has written yet, also after an error: an exception loses no number. The processes of a distributed
job combine their counts when all of them ask for it, which they do when a trainer logs a step.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sandrl.closing import Closing
from sandrl.errors import ServiceError
from sandrl.events import (
    CompletionFinished,
    Emit,
    Event,
    ExecutionFinished,
    OpinionFinished,
    RewardCallFinished,
    SandboxesHeld,
    ScoredCompletion,
    Warned,
    ignore,
)
from sandrl.runs.held import SandboxTime
from sandrl.runs.metrics import PERCENTILES
from sandrl.runs.processes import Processes
from sandrl.runs.rows import MetricsRow
from sandrl.runs.statistics import mean, percentile
from sandrl.runs.summary import Values, completion_metrics, opinion_metrics
from sandrl.runs.writer import RunWriter


@dataclass(frozen=True, slots=True)
class EventCounts:
    """What has happened; that of one process after that of another, in the order of their ranks."""

    completions: tuple[ScoredCompletion, ...]
    executions: tuple[ExecutionFinished, ...]
    opinions: tuple[str, ...]
    calls: tuple[RewardCallFinished, ...]
    held_seconds: float = 0.0

    @classmethod
    def of(cls, events: Sequence[Event]) -> EventCounts:
        """What some events tell."""
        return cls(
            tuple(event.result for event in events if isinstance(event, CompletionFinished)),
            tuple(event for event in events if isinstance(event, ExecutionFinished)),
            tuple(event.opinion.status for event in events if isinstance(event, OpinionFinished)),
            put_together([event for event in events if isinstance(event, RewardCallFinished)]),
            math.fsum(event.seconds for event in events if isinstance(event, SandboxesHeld)),
        )

    @property
    def metrics(self) -> Values:
        """Its metrics."""
        return {**completion_metrics(self.completions), **self.judge_metrics}

    @property
    def judge_metrics(self) -> Values:
        """Those that are not about completions."""
        return {**opinion_metrics(self.opinions), **execution_metrics(self.executions)}


def put_together(calls: Sequence[RewardCallFinished]) -> tuple[RewardCallFinished, ...]:
    """Calls of several processes: those of the same number are parts of one."""
    together = []
    for number in sorted({call.number for call in calls}):
        parts = [asdict(call) for call in calls if call.number == number]
        sums: dict[str, Any] = {name: sum(part[name] for part in parts) for name in parts[0]}
        sums |= {"number": number, "seconds": max(part["seconds"] for part in parts)}
        together.append(RewardCallFinished(**sums))
    return tuple(together)


class MetricsRecorder(Closing):
    """Counts events, and writes a row of metrics for each step; without a writer, only counts.

    Threads may share one. In a resumed run, `attempt` and `first_step` continue those of the run, and `held` is the
    sandbox time that its earlier jobs have used.

    Attributes:
        held: The sandbox time that the run has used, as far as it was told.
    """

    def __init__(
        self,
        writer: RunWriter | None = None,
        *,
        attempt: int = 1,
        first_step: int = 0,
        processes: Processes | None = None,
        held: SandboxTime | None = None,
        emit: Emit = ignore,
    ) -> None:
        self.held = held or SandboxTime()
        self._writer = writer
        self._attempt = attempt
        self._processes = processes or Processes()
        self._emit = emit
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._next_step = first_step
        self._has_news = False

    def __call__(self, event: Event) -> None:
        """Counts an event."""
        # Nobody counts texts, and processes need not send them to one another.
        if isinstance(event, CompletionFinished):
            event = CompletionFinished(event.result.without_texts(), event.finished, event.of)
        elif isinstance(event, OpinionFinished):
            event = OpinionFinished(event.result.without_texts(), event.opinion)
        elif not isinstance(event, ExecutionFinished | RewardCallFinished | SandboxesHeld):
            return
        with self._lock:
            self._events.append(event)
            # What sandboxes take after the last row is added to that (see `RunSession`).
            self._has_news = self._has_news or not isinstance(event, SandboxesHeld)

    def take(self) -> EventCounts:
        """What has happened since the last reset, in all processes, and a reset; all of them must ask."""
        with self._lock:
            events, self._events = self._events, []
            self._has_news = False
        counted = EventCounts.of(self._processes.gather(events))
        self.held = self.held.plus(counted.held_seconds)
        return counted

    def execution_stats(self) -> dict[str, ExecutionStats]:
        """What happened in each sandbox since the last reset, by its id."""
        with self._lock:
            return execution_stats(EventCounts.of(self._events).executions)

    def log(self, step: int, extra: Mapping[str, float | None] | None = None, *, reset: bool = True) -> Values:
        """Writes the metrics of a step, and returns them.

        What the workflow measured itself, such as the loss (`extra`), wins over what was counted. Without `reset`, the
        next row goes on from this one.

        Raises:
            ServiceError: If the row could not be written.
        """
        with self._lock:
            values = {**self._values(), **self._held().metrics, **(extra or {})}
            self._has_news = False
            if reset:
                self.held = self._held()
                self._events.clear()
        self.write(step, values)
        return values

    def write(self, step: int, values: Values) -> None:
        """Writes what a step amounts to in all processes, which the first of them does.

        Raises:
            ServiceError: If the row could not be written.
        """
        self._next_step = max(self._next_step, step + 1)
        if self._writer is not None and self._processes.is_first:
            job_id, rank = self._writer.job_id, self._writer.rank
            row = MetricsRow(job_id=job_id, rank=rank, step=step, attempt=self._attempt, metrics=values)
            self._writer.append(row)

    def close(self) -> None:
        """Writes what no row has, as the step after the last one; closing twice is fine."""
        is_parents = self._writer is not None and self._writer.is_inherited
        if self._has_news and not is_parents:
            try:
                self.log(self._next_step)
            except ServiceError as error:
                # The job may be ending because of this very error, which must not be covered by another.
                self._emit(Warned(f"the last metrics are lost: {error.message}"))

    def _held(self) -> SandboxTime:
        return self.held.plus(EventCounts.of(self._events).held_seconds)

    def _values(self) -> Values:
        counted = EventCounts.of(self._events)
        return counted.metrics if counted.completions else counted.judge_metrics


@dataclass(frozen=True, slots=True)
class ExecutionStats:
    """The commands in one sandbox: those that exited 0, those that exited otherwise, and those without an exit code."""

    total: int = 0
    successes: int = 0
    failures: int = 0
    errors: int = 0


def execution_metrics(executions: Sequence[ExecutionFinished]) -> Values:
    """The metrics of commands in sandboxes, the ten of `aviato/*` among them."""
    outcomes = Counter(each.outcome for each in executions)
    cells = [each for each in executions if each.in_cell and each.sandbox_id is not None]
    per_sandbox = [stats.total for stats in execution_stats(each for each in executions if not each.in_cell).values()]
    per_sandbox += [1] * len(cells)
    total = len(executions)
    held = [(each.startup_seconds or 0.0) + (each.exec_seconds or 0.0) for each in executions]
    return {
        "aviato/sandboxes_created": float(len(execution_stats(executions))),
        "aviato/executions": float(total),
        "aviato/exec_successes": float(outcomes["success"]),
        "aviato/exec_failures": float(outcomes["failure"]),
        "aviato/exec_errors": float(outcomes["error"]),
        "aviato/success_rate": outcomes["success"] / total if total else None,
        "aviato/error_rate": outcomes["error"] / total if total else None,
        "aviato/avg_execs_per_sandbox": mean(per_sandbox),
        "aviato/min_execs_per_sandbox": float(min(per_sandbox)) if per_sandbox else None,
        "aviato/max_execs_per_sandbox": float(max(per_sandbox)) if per_sandbox else None,
        **_startups([each.startup_seconds for each in executions if each.startup_seconds is not None]),
        **_percentiles("startup", [each.startup_seconds for each in executions]),
        **_percentiles("queue", [each.queue_seconds for each in executions]),
        **_percentiles("exec", [each.exec_seconds for each in executions]),
        **_percentiles("judge", [each.judge_seconds for each in executions]),
        "aviato/sandbox_seconds": sum(held),
    }


def execution_stats(executions: Iterable[ExecutionFinished]) -> dict[str, ExecutionStats]:
    """What happened in each sandbox, by its id; commands that never got a sandbox are in none."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in executions:
        if each.sandbox_id is not None:
            counts[each.sandbox_id][each.outcome] += 1
    return {
        sandbox_id: ExecutionStats(each.total(), each["success"], each["failure"], each["error"])
        for sandbox_id, each in counts.items()
    }


def _startups(seconds: Sequence[float]) -> Values:
    return {
        "aviato/startup_count": float(len(seconds)),
        "aviato/avg_startup_seconds": mean(seconds),
        "aviato/min_startup_seconds": min(seconds, default=None),
        "aviato/max_startup_seconds": max(seconds, default=None),
    }


def _percentiles(part: str, seconds: Iterable[float | None]) -> Values:
    known = [value for value in seconds if value is not None]
    return {f"aviato/{part}_seconds_p{percent}": percentile(known, percent) for percent in PERCENTILES}
