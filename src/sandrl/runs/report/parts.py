"""The parts of a report from a run's metrics, evaluations and ledger, for every way to count its completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandrl.runs.reader import RunReader, row_files
from sandrl.runs.rows import EvaluationRow, SandboxEvent, SandboxRow
from sandrl.runs.series import Series
from sandrl.runs.statistics import Estimate

_PASS_AT = "held_out/pass@"
_MOST_LEDGER_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Completions:
    """What the completions of a run amount to, without those that evaluate its policy.

    Attributes:
        rates: How many were finished in a second, in each of some equal spans: where a span ends, in seconds since the
            first row, and how many.
    """

    count: int = 0
    by_status: Mapping[str, int] = field(default_factory=dict)
    pass_at: Mapping[int, Estimate] = field(default_factory=dict)
    executions: int = 0
    last_time: datetime | None = None
    rates: Sequence[tuple[float, float]] = ()


def estimates_part(found: Mapping[int, Estimate]) -> dict[str, Any]:
    """Estimates of pass@k with their intervals, by k."""
    return {
        str(k): {"estimate": each.value, "low": each.low, "high": each.high, "problems": each.problems}
        for k, each in sorted(found.items())
    }


def evaluations_part(rows: Sequence[EvaluationRow]) -> list[dict[str, Any]]:
    """The evaluations of a policy, in the order of its steps."""
    return [
        {
            "step": row.step,
            "is_held_out": row.is_held_out,
            "problems": row.problems,
            "pass_at": _pass_at(row),
            "metrics": dict(row.metrics),
        }
        for row in sorted(rows, key=lambda row: row.step)
    ]


def sandboxes_part(reader: RunReader, series: Mapping[str, Series], executions: int) -> dict[str, Any]:
    """How many sandboxes the run used, and what for; None where nobody has counted."""
    created = total_of(series, "aviato/sandboxes_created")
    errors = total_of(series, "aviato/exec_errors")
    return {
        "count": _created(reader) if created is None else int(created),
        "executions": executions,
        "errors": None if errors is None else int(errors),
    }


def throughput_part(series: Mapping[str, Series], completions: Completions) -> dict[str, Any]:
    """Completions per second: over the steps where these were timed, otherwise over the seconds since the first one."""
    timed, counted = series.get("step_seconds"), series.get("completions")
    if timed is not None and counted is not None:
        counts = dict(zip(counted.steps, counted.values, strict=True))
        points = [
            (step, counts[step], seconds)
            for step, seconds in zip(timed.steps, timed.values, strict=True)
            if step in counts and seconds > 0
        ]
        if points:
            mean = sum(count for _, count, _ in points) / sum(seconds for *_, seconds in points)
            values = [count / seconds for _, count, seconds in points]
            return {"completions_per_second": mean, "over": "steps", "at": [at for at, *_ in points], "values": values}
    rates = completions.rates
    mean_rate = completions.count / rates[-1][0] if rates else None
    return {
        "completions_per_second": mean_rate,
        "over": "seconds",
        "at": [at for at, _ in rates],
        "values": [rate for _, rate in rates],
    }


def total_of(series: Mapping[str, Series], *names: str) -> float | None:
    """The sum of the first of some metrics that was measured; None if none was."""
    return next((sum(series[name].finite) for name in names if name in series), None)


def _pass_at(row: EvaluationRow) -> dict[str, Any]:
    found = {}
    for name, value in row.metrics.items():
        k = name.removeprefix(_PASS_AT)
        if name.startswith(_PASS_AT) and k.isdecimal() and value is not None:
            low, high = (row.metrics.get(f"{name}_{end}") for end in ("low", "high"))
            problems = row.metrics.get("held_out/problems")
            found[k] = {
                "estimate": value,
                "low": low,
                "high": high,
                "problems": row.problems if problems is None else int(problems),
            }
    return found


def _created(reader: RunReader) -> int | None:
    files = row_files(reader.path, SandboxRow.file)
    with suppress(OSError):
        if sum(file.stat().st_size for file in files) <= _MOST_LEDGER_BYTES:
            return sum(row.event is SandboxEvent.CREATED for row in reader.each_sandbox())
    return None
