"""The rounds of a training with ART: those of this job, those before it, and why it ended before its last step.

The step of the backend is authoritative, because it belongs to the weights. If a run was killed after the step of the
backend and before its own row, the row is written when the run is resumed, so no step is lost or repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from sandrl.errors import InfrastructureError, SandrlError, TrainingError, UsageError
from sandrl.runs import MetricsRow, RunReader, RunWriter, completion_metrics
from sandrl.trainers.art.backend import StepResult
from sandrl.trainers.art.groups import EQUAL_REWARDS
from sandrl.trainers.training import Stop, TrainingRun

STEP = "train/step"
GRADIENT_STEPS = "train/gradient_steps"
# What ART calls the numbers that every trainer has.
_KNOWN = {"loss": ("loss/train", "loss:mean"), "grad_norm": ("loss/grad_norm", "grad_norm", "unclipped_grad_l2:mean")}
_LOSS_SUM = "loss:sum"
_HINT = (
    "easier or harder problems, more samples per problem or a higher temperature make rewards differ; `max_flat_rounds`"
    " allows more such rounds"
)


@dataclass(frozen=True, slots=True)
class Round:
    """Episodes that were run, or read, and what was trained on them.

    Attributes:
        step: How many steps the model has had after it.
        trajectories: How many episodes have a reward.
        dropped: How many were lost to infrastructure.
        reward: Their mean reward; None if there is none.
        metrics: What the training measured; empty if nothing was trained.
        failure: Why nothing was trained; empty if something was.
    """

    step: int
    trajectories: int
    dropped: int
    reward: float | None
    metrics: Mapping[str, float | None]
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtRun(TrainingRun):
    """A training with ART that has ended; `is_short` if there was nothing more to train on."""

    job_id: str
    first_step: int
    rounds: tuple[Round, ...]
    is_short: bool = False

    @property
    def failures(self) -> tuple[str, ...]:
        """Why rounds trained nothing, one reason for each."""
        return tuple(each.failure for each in self.rounds if each.failure)

    @property
    def dropped(self) -> int:
        """How many episodes were lost to infrastructure."""
        return sum(each.dropped for each in self.rounds)

    @property
    def failure(self) -> SandrlError | None:
        if self.steps >= self.of or (self.is_short and self.steps):
            return None
        last = list(takewhile(lambda each: each.failure, reversed(self.rounds)))
        if not last:
            return TrainingError("nothing was trained: all recorded episodes have been used")
        lost = sum(each.dropped for each in last)
        if lost:
            return InfrastructureError(
                f"step {self.steps + 1} could not be trained: {lost} episodes were lost; {last[0].failure}",
                hint=f"sandrl runs show {self.run_dir.name} shows the reason of each",
            )
        return TrainingError(
            f"step {self.steps + 1} had no gradient, {len(last)} times: {last[0].failure}",
            hint=_HINT if last[0].failure.startswith(EQUAL_REWARDS) else None,
        )

    @property
    def stop(self) -> Stop:
        message = f"interrupted after step {self.steps} of {self.of}; finished steps are saved in {self.run_dir}"
        return stop_of(message, self.run_dir.name)


def stop_of(message: str, run_id: str) -> Stop:
    """What an interrupted run says, with the command that resumes it."""
    hint = f"sandrl art train --resume {run_id}"
    return Stop(message, hint, f"{hint} --budget … continues with a larger budget")


def step_metrics(trained: StepResult) -> dict[str, float | None]:
    """What a step amounted to: the backend's own numbers under names that all trainers share, or `art/`."""
    left = dict(trained.metrics)
    metrics: dict[str, float | None] = {
        STEP: float(trained.step),
        GRADIENT_STEPS: float(trained.gradient_steps),
        "train/tokens": float(trained.tokens),
    }
    for name, theirs in _KNOWN.items():
        found = next((each for each in theirs if each in left), None)
        if found is not None:
            metrics[name] = float(left.pop(found))
    if "loss" not in metrics and _LOSS_SUM in left and trained.tokens:
        metrics["loss"] = float(left[_LOSS_SUM]) / trained.tokens
    return metrics | {f"art/{name}": float(value) for name, value in left.items()}


def next_round(writer: RunWriter, step: int, found: StepResult | None = None) -> int:
    """The round at which a run is resumed, after its files know all `step` steps that the backend does.

    `found` is what the last of them measured, if that is known.

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
    measured = step_metrics(found) if found is not None and found.step == step else {}
    metrics = {**completion_metrics(played), STEP: float(step), GRADIENT_STEPS: float(step - known), **measured}
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
