"""A run in one line: the line of `sandrl runs ls`, and the head of every view of a run.

The cheapest source is used: the metrics if a job wrote them, otherwise the completions themselves. A run that cannot be
read is listed as damaged, because a list that fails on one bad run would hide all the good ones.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from sandrl.errors import InputError, RunOutcome
from sandrl.runs.config import Origin, RunConfig, origin_of
from sandrl.runs.held import COST_METRIC, SECONDS_METRIC, SandboxTime, held_by
from sandrl.runs.index import RunEntry
from sandrl.runs.log import executions_by_step
from sandrl.runs.reader import RunReader, SlimRow
from sandrl.runs.recorder import execution_metrics
from sandrl.runs.rows import EvaluationRow, MetricsRow
from sandrl.runs.summary import Values, completion_metrics, opinion_metrics

HELD_OUT = "held_out/pass@1"
"""The metric by which checkpoints are compared."""

OF_HELD = frozenset({SECONDS_METRIC, COST_METRIC})
"""Metrics that do not show that a step was done."""


class RunState(StrEnum):
    """How it stands with a run."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    KILLED = "killed"
    """Its last job ended without a word."""
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Rate:
    """A share with the 95% interval that was measured with it.

    Attributes:
        low: The lower bound of the interval; None where an earlier version of sandrl has not measured it.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The checkpoint whose policy has the highest sampled pass@1 on held-out problems; of equal ones the earliest.

    Attributes:
        step: How many steps the policy in it has had.
    """

    step: int
    path: Path
    metrics: Mapping[str, float | None]
    is_held_out: bool
    of: int


@dataclass(frozen=True, slots=True)
class RunOverview:
    """A run in one line.

    Attributes:
        started_at: When it was started or resumed last, UTC.
        pass_at_1: The pass@1 of its latest evaluation, else of its last step; None if none was scored. A run that
            measures problems has neither it nor a mean reward and a pass rate: most of its rows are to fail.
        subject: The model that was evaluated or trained, or the file of completions; None if it does not say.
        held: The sandbox time that it has used, and its cost; None where that was not asked for.
        hash_seed: The hash seed of its verdicts; None where its command has none.
        judge_agreement: How far the model that grades agrees with labelled answers; None where that was not measured.
    """

    run_id: str
    path: Path
    state: RunState
    command: str
    started_at: datetime
    completions: int = 0
    reward_mean: float | None = None
    pass_rate: float | None = None
    pass_at_1: Rate | None = None
    unscorable: int = 0
    subject: str | None = None
    source: str | None = None
    steps: int = 0
    size_bytes: int = 0
    error: str | None = None
    origin: Origin | None = None
    best: BestCheckpoint | None = None
    held: SandboxTime | None = None
    hash_seed: int | None = None
    judge_agreement: str | None = None


def overview(entry: RunEntry, *, has_held: bool = False) -> RunOverview:
    """The overview of a run, whatever its condition; its ledger is read only to know its sandbox time (`has_held`)."""
    size = directory_size(entry.path)
    try:
        reader = RunReader(entry.path)
        rows = step_rows(reader)
    except InputError:
        return RunOverview(entry.run_id, entry.path, RunState.DAMAGED, "", entry.started_at, size_bytes=size)
    is_measuring = reader.config.measures_problems
    return RunOverview(
        run_id=entry.run_id,
        path=entry.path,
        state=state_of(reader.config, is_running=reader.is_running),
        command=reader.config.command,
        hash_seed=seed if isinstance(seed := reader.config.options.get("hash_seed"), int) else None,
        judge_agreement=reader.config.judge_agreement,
        started_at=entry.started_at,
        completions=int(sum(row.metrics.get("completions") or 0 for row in rows)),
        reward_mean=None if is_measuring else _latest(rows, "reward/mean"),
        pass_rate=None if is_measuring else _latest(rows, "pass_rate"),
        pass_at_1=None if is_measuring else latest_pass_at_1(rows),
        unscorable=int(sum(row.metrics.get("unscorable") or 0 for row in rows)),
        subject=reader.config.subject,
        source=reader.config.source,
        steps=count_steps(rows),
        size_bytes=size,
        error=reader.config.jobs[-1].error if reader.config.jobs else None,
        origin=origin_of(reader.config.options),
        best=best_checkpoint(entry.path, reader.evaluations().rows),
        held=held_by(reader) if has_held else None,
    )


def count_steps(rows: Sequence[MetricsRow]) -> int:
    """How many steps were done; what follows the last one, to evaluate the policy that came out, is none."""
    return sum(any(not (name.startswith("held_out/") or name in OF_HELD) for name in row.metrics) for row in rows)


def latest_pass_at_1(rows: Sequence[MetricsRow]) -> Rate | None:
    """The pass@1 of the latest evaluation on held-out problems, else that of the last step that has one."""
    for name in (HELD_OUT, "pass@1"):
        for row in reversed(rows):
            value = row.metrics.get(name)
            if value is not None:
                return Rate(value, row.metrics.get(f"{name}_low"), row.metrics.get(f"{name}_high"))
    return None


def _latest(rows: Sequence[MetricsRow], name: str) -> float | None:
    # The latest value of a metric; steps that only evaluate the policy have no reward.
    known = (row.metrics[name] for row in reversed(rows) if row.metrics.get(name) is not None)
    return next(known, None)


def state_of(config: RunConfig, *, is_running: bool) -> RunState:
    """How it stands with a run."""
    if is_running:
        return RunState.RUNNING
    outcome = config.jobs[-1].outcome if config.jobs else None
    match outcome:
        case RunOutcome.FINISHED:
            return RunState.FINISHED
        case RunOutcome.INTERRUPTED:
            return RunState.INTERRUPTED
        case RunOutcome.FAILED:
            return RunState.FAILED
    return RunState.KILLED


def step_rows(reader: RunReader, known: Iterable[MetricsRow] | None = None) -> tuple[MetricsRow, ...]:
    """The metrics of each step, in order; where none has any, they are `known` or counted from completions.

    Of several ranks the first one speaks: trainers gather there what the others measured. An evaluation is in the row
    of the step that follows it, also before that step is done.
    """
    by_step: dict[int, MetricsRow] = {}
    for row in reader.metrics().rows:
        other = by_step.get(row.step)
        if other is None or row.rank < other.rank:
            by_step[row.step] = row
    if not by_step:
        by_step = {row.step: row for row in (counted_rows(reader) if known is None else known)}
    for found in reader.evaluations().rows:
        alone = MetricsRow(job_id=found.job_id, step=found.step, attempt=found.attempt, metrics={})
        row = by_step.get(found.step, alone)
        by_step[found.step] = row.model_copy(update={"metrics": {**row.metrics, **found.metrics}})
    return tuple(by_step[step] for step in sorted(by_step))


def counted_rows(reader: RunReader) -> tuple[MetricsRow, ...]:
    """Metrics of each step as they follow from its completions, and from the executions in the log."""
    steps: defaultdict[int, list[SlimRow]] = defaultdict(list)
    for row in reader.each_counted():
        if not row.held_out:
            steps[row.step or 0].append(row)
    measured = []
    executions = executions_by_step(reader.each_log())
    for step, own in sorted(steps.items()):
        opinions = [row.second_opinion.status for row in own if row.second_opinion is not None]
        values: Values = {
            **completion_metrics(own),
            **opinion_metrics(opinions),
            **execution_metrics(executions.get(step, [])),
        }
        last = max(row.time for row in own)
        measured.append(MetricsRow(time=last, job_id=own[0].job_id, step=step, attempt=own[0].attempt, metrics=values))
    return tuple(measured)


def best_checkpoint(run: Path, rows: Iterable[EvaluationRow]) -> BestCheckpoint | None:
    """The best checkpoint of a run; None if no checkpoint that is there was evaluated."""
    saved = [(row, run / row.checkpoint) for row in rows if row.checkpoint is not None]
    there = [(row, path) for row, path in saved if path.is_dir()]
    rated = [(rate, -row.step, row, path) for row, path in there if (rate := row.metrics.get(HELD_OUT)) is not None]
    if not rated:
        return None
    *_, row, path = max(rated, key=lambda each: each[:2])
    return BestCheckpoint(row.step, path, row.metrics, row.is_held_out, of=len(rated))


def directory_size(path: Path) -> int:
    """What the files below a directory take, in bytes; what vanishes meanwhile counts nothing."""
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                size += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return size


def overviews(entries: Sequence[RunEntry]) -> list[RunOverview]:
    """The overview of each run, in the same order."""
    return [overview(entry) for entry in entries]
