"""The content of a report, as plain data; the page decides how it looks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sandrl.errors import RunOutcome
from sandrl.runs.cards import Card
from sandrl.runs.columns import RowPlace
from sandrl.runs.config import RunConfig
from sandrl.runs.flags import flags_of
from sandrl.runs.held import held_by
from sandrl.runs.identity import disagreements
from sandrl.runs.overview import state_of, step_rows
from sandrl.runs.reader import Damage, Rows, RunReader, SlimRow
from sandrl.runs.report.cards import cards_part
from sandrl.runs.report.parts import (
    Completions,
    estimates_part,
    evaluations_part,
    sandboxes_part,
    throughput_part,
    total_of,
)
from sandrl.runs.rows import MetricsRow, ProblemRow, TrajectoryRow, now
from sandrl.runs.series import Series, series_of
from sandrl.runs.summary import summarise

LONGEST_TEXT = 20_000
"""The number of characters of a text that are in the report; the run directory has the whole text."""

_TEXTS = frozenset({"completion", "reasoning", "code", "stdout", "stderr", "detail"})
_LEFT_OUT = frozenset({"schema_version", "time", "rank", "attempt"})
_SPANS = 60


def report_document(reader: RunReader, damage: Damage | None = None) -> dict[str, Any]:
    """The data of a run's report, except for its trajectories and its cards."""
    damage = Damage() if damage is None else damage
    rows = tuple(reader.each_counted(damage))
    return run_document(
        reader,
        step_rows(reader),
        _counted(rows),
        reader.cards(),
        damage=damage,
        contradictions=disagreements(reader, is_complete=is_complete_run(reader), trajectories=rows),
        index={"rows": len(rows), "total_bytes": 0, "read_bytes": 0, "is_complete": True},
    )


def run_document(
    reader: RunReader,
    metrics: tuple[MetricsRow, ...],
    completions: Completions,
    cards: Rows[Card],
    *,
    damage: Damage,
    contradictions: Iterable[str],
    index: dict[str, Any],
) -> dict[str, Any]:
    """The data of a run, except for its trajectories and its cards, where the former have been counted."""
    config = reader.config
    series = series_of(metrics)
    held = held_by(reader)
    return {
        "run": run_part(reader, completions.last_time, metrics),
        "options": config.options,
        "jobs": [job.model_dump(mode="json") for job in config.jobs],
        "metrics": {name: _series(each) for name, each in series.items()},
        "flags": [asdict(flag) for flag in flags_of(series)],
        "notes": _notes(damage, reader, cards),
        "disagreements": list(contradictions),
        "evaluations": evaluations_part(reader.evaluations().rows),
        "pass_at": estimates_part(completions.pass_at),
        "statuses": dict(completions.by_status),
        "completions": completions.count,
        "cards": cards_part(cards.rows),
        "sandboxes": sandboxes_part(reader, series, completions.executions),
        "throughput": throughput_part(series, completions),
        "sandbox_seconds": held.seconds,
        "cost": None if held.cost is None else held.cost.shown,
        "index": index,
    }


def run_part(reader: RunReader, last_row: datetime | None, metrics: Sequence[MetricsRow]) -> dict[str, Any]:
    """What the head of a page says of a run, of whose rows the last one was written at `last_row`."""
    config, jobs = reader.config, reader.config.jobs
    # The run stays locked for a moment after its job has said how it ended.
    is_running = reader.is_running and not (jobs and jobs[-1].outcome is not None)
    return {
        "run_id": config.run_id,
        "command": config.command,
        "measures_problems": config.measures_problems,
        "problems": config.source,
        "state": state_of(config, is_running=is_running).value,
        "created_at": _time(config.created_at),
        "made_at": _time(now()),
        "seconds": run_seconds(config, last_row, metrics),
        "unscorable": int(total_of(series_of(metrics), "unscorable") or 0),
    }


def is_complete_run(reader: RunReader) -> bool:
    """Whether nobody writes the run, and all of its jobs have finished."""
    return not reader.is_running and all(job.outcome is RunOutcome.FINISHED for job in reader.config.jobs)


def report_trajectories(reader: RunReader) -> Iterator[dict[str, Any]]:
    """The trajectories of a run's report, one by one."""
    seen: Counter[RowPlace] = Counter()
    for row in reader.each_trajectory():
        place = RowPlace(row.step, row.index, row.rank, row.held_out, row.greedy)
        yield {"key": replace(place, repeat=seen[place]).key, **trajectory_document(row)}
        seen[place] += 1


def report_problems(reader: RunReader) -> dict[str, dict[str, Any]]:
    """The problems that a run's completions answer, by digest."""
    return {digest: problem_document(row) for digest, row in reader.problems().items()}


def problem_document(row: ProblemRow) -> dict[str, Any]:
    """A problem without what says which job wrote it."""
    return row.model_dump(mode="json", exclude=set(_LEFT_OUT) | {"job_id"})


def run_seconds(config: RunConfig, last_row: datetime | None, metrics: Sequence[MetricsRow]) -> float:
    """How long jobs worked on a run; for one that has not ended, until its last row."""
    last = max([*([] if last_row is None else [last_row]), *(row.time for row in metrics[-1:])], default=None)
    total = 0.0
    for job in config.jobs:
        end = job.finished_at or last
        if end is not None:
            total += max((end - job.started_at).total_seconds(), 0.0)
    return total


def rates_of(times: Sequence[float]) -> list[tuple[float, float]]:
    """How many rows were written in a second, in each of some equal spans, from the times of rows in seconds."""
    if len(times) < 2:
        return []
    first, last = min(times), max(times)
    span = max((last - first) / _SPANS, 1.0)
    counts = Counter(min(int((each - first) / span), _SPANS - 1) for each in times)
    return [((at + 1) * span, counts[at] / span) for at in range(max(counts) + 1)]


def _counted(rows: Sequence[SlimRow]) -> Completions:
    own = [row for row in rows if not row.held_out]
    summary = summarise(own)
    several = any(count > 1 for count in Counter(row.task_id for row in own if row.reward is not None).values())
    return Completions(
        count=summary.n,
        by_status=summary.by_status,
        pass_at=summary.pass_at if several else {},
        executions=summary.executions,
        last_time=rows[-1].time if rows else None,
        rates=rates_of([row.time.timestamp() for row in own]),
    )


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _series(series: Series) -> dict[str, Any]:
    metric = series.metric
    return {
        "unit": None if metric is None else metric.unit.value,
        "meaning": None if metric is None else metric.meaning,
        "steps": list(series.steps),
        # A gap in the curve; the flags name what is no number.
        "values": [value if math.isfinite(value) else None for value in series.values],
    }


def _notes(damage: Damage, reader: RunReader, cards: Rows[Card]) -> list[str]:
    metrics = reader.metrics()
    notes = []
    if damage.is_truncated or metrics.is_truncated or cards.is_truncated:
        notes.append("The last row was incomplete when this report was made, and is left out.")
    damaged = [error.message for error in (*damage.damaged, *metrics.damaged, *cards.damaged)]
    if damaged:
        notes.append(f"{len(damaged)} rows could not be read; the first: {damaged[0]}")
    return notes


def trajectory_document(row: TrajectoryRow) -> dict[str, Any]:
    """A trajectory without what is empty, and with its long texts cut: ten thousand of them are one file."""
    fields = row.model_dump(mode="json", exclude=set(_LEFT_OUT), exclude_defaults=True)
    for name in _TEXTS & fields.keys():
        fields[name] = _cut(fields[name])
    spoken = (fields, *fields.get("branches", ()))
    for message in (message for each in spoken for message in each.get("messages", ())):
        message["content"] = _cut(message.get("content", ""))
        if "reasoning" in message:
            message["reasoning"] = _cut(message["reasoning"])
    fields.setdefault("reward", row.reward)
    if row.is_cut_off:
        fields["cut_off"] = True
    return fields


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\n… {len(text) - LONGEST_TEXT} more characters are in trajectories.jsonl"
