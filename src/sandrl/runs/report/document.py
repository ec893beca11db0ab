"""What a report says, as plain data; how it looks is the page's business."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sandrl.errors import RunOutcome
from sandrl.runs.counted import CountedRow, counted
from sandrl.runs.flags import flags_of
from sandrl.runs.identity import contradictions
from sandrl.runs.overview import state_of, step_rows
from sandrl.runs.reader import Damage, RunReader
from sandrl.runs.rows import MetricsRow, TrajectoryRow, now
from sandrl.runs.series import Series, series_of

LONGEST_TEXT = 20_000
"""Characters of a text that are in the report; the run directory has the rest."""

_TEXTS = frozenset({"completion", "code", "stdout", "stderr", "detail"})
_LEFT_OUT = frozenset({"schema_version", "time", "rank", "attempt"})


def report_document(reader: RunReader, damage: Damage | None = None) -> dict[str, Any]:
    """The data of a run's report, except for its trajectories.

    Args:
        reader: The run, in whatever condition.
        damage: Where to write down which trajectories cannot be read.
    """
    config = reader.config
    damage = Damage() if damage is None else damage
    rows = tuple(counted(reader.each_trajectory(damage)))
    metrics = step_rows(reader)
    series = series_of(metrics)
    is_running = reader.is_running
    jobs = [job.model_dump(mode="json") for job in config.jobs]
    is_complete = not is_running and all(job.outcome is RunOutcome.FINISHED for job in config.jobs)
    return {
        "run": {
            "run_id": config.run_id,
            "command": config.command,
            "state": state_of(config, is_running=is_running).value,
            "created_at": _time(config.created_at),
            "made_at": _time(now()),
            "seconds": _seconds(reader, rows, metrics),
        },
        "options": config.options,
        "jobs": jobs,
        "metrics": {name: _series(each) for name, each in series.items()},
        "flags": [asdict(flag) for flag in flags_of(series)],
        "notes": _notes(damage, reader),
        "disagreements": list(contradictions(reader, rows, reader.opinions().rows, is_complete=is_complete)),
    }


def report_trajectories(reader: RunReader) -> Iterator[dict[str, Any]]:
    """The trajectories of a run's report, one by one.

    Args:
        reader: The run, in whatever condition.
    """
    return map(_trajectory, reader.each_trajectory())


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _seconds(reader: RunReader, rows: Sequence[CountedRow], metrics: tuple[MetricsRow, ...]) -> float:
    """How long its jobs worked on it; for one that has not ended, until its last row."""
    last_row = max([*(row.time for row in rows[-1:]), *(row.time for row in metrics[-1:])], default=None)
    total = 0.0
    for job in reader.config.jobs:
        end = job.finished_at or last_row
        if end is not None:
            total += max((end - job.started_at).total_seconds(), 0.0)
    return total


def _series(series: Series) -> dict[str, Any]:
    metric = series.metric
    return {
        "unit": None if metric is None else metric.unit.value,
        "meaning": None if metric is None else metric.meaning,
        "steps": list(series.steps),
        # A gap in the curve; the flags name what is no number.
        "values": [value if math.isfinite(value) else None for value in series.values],
    }


def _notes(damage: Damage, reader: RunReader) -> list[str]:
    metrics = reader.metrics()
    notes = []
    if damage.is_truncated or metrics.is_truncated:
        notes.append("The last row was unfinished when this report was made, and is left out.")
    damaged = [error.message for error in (*damage.damaged, *metrics.damaged)]
    if damaged:
        notes.append(f"{len(damaged)} rows could not be read; the first: {damaged[0]}")
    return notes


def _trajectory(row: TrajectoryRow) -> dict[str, Any]:
    """A trajectory without what is empty: ten thousand of them are one file."""
    fields = row.model_dump(mode="json", exclude=set(_LEFT_OUT), exclude_defaults=True)
    for name in _TEXTS & fields.keys():
        fields[name] = _cut(fields[name])
    for message in fields.get("messages", ()):
        message["content"] = _cut(message.get("content", ""))
    fields.setdefault("reward", row.reward)
    return fields


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n… {len(text) - LONGEST_TEXT} more characters are in trajectories.jsonl"
