"""From commands in sandboxes to the values of metrics.

The same functions serve a job that is running, which counts events, and a reader that finds a run without metrics,
because its job was killed, and counts what its log has of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sandrl.events import ExecutionFinished
from sandrl.runs.metrics import PERCENTILES
from sandrl.runs.statistics import mean, percentile
from sandrl.runs.summary import Values


@dataclass(frozen=True, slots=True)
class ExecutionStats:
    """What happened in one sandbox.

    Attributes:
        successes: Those that exited 0.
        failures: Those that exited otherwise.
        errors: Those that brought no exit code.
    """

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
