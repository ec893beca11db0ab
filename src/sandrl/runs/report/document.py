"""What a report says, as plain data; how it looks is the page's business."""

from __future__ import annotations

import math
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sandrl.errors import RunOutcome
from sandrl.runs.flags import flags_of
from sandrl.runs.identity import disagreements
from sandrl.runs.overview import state_of, step_rows
from sandrl.runs.reader import Rows, RunReader
from sandrl.runs.rows import MetricsRow, TrajectoryRow, now
from sandrl.runs.series import Series, series_of

LONGEST_TEXT = 20_000
"""Characters of a text that are in the report; the run directory has the rest."""

_TEXTS = frozenset({"completion", "code", "stdout", "stderr", "detail"})
_LEFT_OUT = frozenset({"schema_version", "time", "rank", "attempt"})


def report_document(reader: RunReader) -> dict[str, Any]:
    """The data of a run's report.

    Args:
        reader: The run, in whatever condition.
    """
    config = reader.config
    trajectories = reader.trajectories()
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
            "seconds": _seconds(reader, trajectories.rows, metrics),
        },
        "options": config.options,
        "jobs": jobs,
        "metrics": {name: _series(each) for name, each in series.items()},
        "flags": [asdict(flag) for flag in flags_of(series)],
        "notes": _notes(trajectories, reader.metrics()),
        "disagreements": list(disagreements(reader, is_complete=is_complete)),
        "trajectories": [_trajectory(row) for row in trajectories.rows],
    }


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _seconds(reader: RunReader, rows: tuple[TrajectoryRow, ...], metrics: tuple[MetricsRow, ...]) -> float:
    """How long its jobs worked on it; for one that has not ended, until its last row."""
    last_row = max((row.time for row in (*rows[-1:], *metrics[-1:])), default=None)
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


def _notes(*reads: Rows[Any]) -> list[str]:
    notes = []
    if any(read.is_truncated for read in reads):
        notes.append("The last row was unfinished when this report was made, and is left out.")
    damaged = [error.message for read in reads for error in read.damaged]
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
