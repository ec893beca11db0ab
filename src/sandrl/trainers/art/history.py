"""The steps that a run has already trained, reconciled between its files and its backend.

The step of the backend is authoritative, because it belongs to the weights. If a run was killed after the step of the
backend and before its own row, the row is written when the run is resumed, so no step is lost or repeated.
"""

from __future__ import annotations

import math
from pathlib import Path

from sandrl.errors import UsageError
from sandrl.runs import MetricsRow, RunReader, RunWriter, completion_metrics

STEP = "train/step"
GRADIENT_STEPS = "train/gradient_steps"


def next_round(writer: RunWriter, step: int) -> int:
    """The round at which a run is resumed, after its files know all `step` steps that the backend does.

    Raises:
        UsageError: If the backend has lost steps that the run has made.
    """
    reader = RunReader(writer.path)
    rows = _rounds(reader)
    known = _steps(rows)
    following = max((row.step for row in rows), default=-1) + 1
    if step < known:
        raise UsageError(
            f"the run {writer.run_id!r} cannot be resumed: it has made {known} steps, and its backend has {step}",
            hint="start a new run under another name",
        )
    if step == known:
        return following
    played = [row for row in reader.trajectories().rows if row.step == following]
    metrics = {**completion_metrics(played), STEP: float(step), GRADIENT_STEPS: float(step - known)}
    # Later than what a job that was given up in this round may have left of it.
    attempt = len(reader.config.jobs)
    writer.append(MetricsRow(job_id=writer.job_id, step=following, attempt=attempt, metrics=metrics))
    return following + 1


def steps_made(run: Path) -> int:
    return _steps(_rounds(RunReader(run)))


def _rounds(reader: RunReader) -> list[MetricsRow]:
    # One that was given up has no step.
    return [row for row in reader.metrics().rows if row.metrics.get(STEP) is not None]


def _steps(rounds: list[MetricsRow]) -> int:
    return int(max((row.metrics[STEP] or 0 for row in rounds), default=0))


def check_sound(run: Path) -> None:
    """Makes sure that a run has a model to go on with.

    Raises:
        UsageError: If a loss or gradient in it is no number.
    """
    rows = RunReader(run).metrics().rows
    if any(not math.isfinite(row.metrics.get(name) or 0.0) for row in rows for name in ("loss", "grad_norm")):
        raise UsageError(
            f"the run {run.name!r} cannot be resumed: a loss or gradient in it is not a number, so its model is lost",
            hint="start a new run with a smaller learning rate",
        )


def art_directory(run: Path) -> Path:
    """Where ART keeps what it knows of a run's model."""
    return run / "art"
