"""Records a training run step by step: metrics rows and events.

Numbers about rewards are counted from the events of all processes; numbers about optimization come from the trainer.
Both are in one row of `metrics.jsonl`, which is written when the trainer logs the step, before it saves a checkpoint:
so every checkpoint belongs to a step that has a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import TrainingError
from sandrl.events import CheckpointSaved, EvaluationFinished, EvaluationStarted, StepFinished
from sandrl.problems.schedule import Schedule
from sandrl.runs import EvaluationRow, RunReader
from sandrl.runs.metrics import TRUNCATED
from sandrl.runs.overview import BestCheckpoint, best_checkpoint
from sandrl.runs.recorder import EventCounts
from sandrl.runs.summary import FinishedCompletion, Values, named, pass_at
from sandrl.trainers.checkpoints import Checkpoint, mark_whole, remove_old
from sandrl.trainers.order import note_all, passes_of
from sandrl.trainers.plan import Context
from sandrl.trainers.training import Training

# The trainer's metrics that are kept under their own names; its rewards are not, ours know their completions.
_OF_TRAINER = ("loss", "grad_norm", "learning_rate", "kl", "entropy", "num_tokens", "epoch")
_FAMILIES_OF_TRAINER = ("completions/", "clip_ratio/", "tools/", "sampling/", "groups/", TRUNCATED)


class Recorder:
    """Writes down steps, evaluations and checkpoints.

    Attributes:
        checkpoint: The last complete checkpoint; None before the first.
        steps_done: How many steps the policy has had.
        evaluations: What was measured of the policy, by the number of steps it had.
    """

    def __init__(
        self,
        context: Context,
        training: Training,
        checkpoints: Path,
        *,
        begin: Checkpoint | None,
        schedule: Schedule | None = None,
    ) -> None:
        self.checkpoint = begin
        self.steps_done = 0 if begin is None else begin.step
        self._context = context
        self._config = context.config
        self._processes = context.processes
        self._schedule = schedule
        self._training = training
        self._run = training.session.writer.path
        self.evaluations: dict[int, EvaluationRow] = {
            row.step: row for row in RunReader(self._run).evaluations().rows if row.step <= self.steps_done
        }
        self._checkpoints = checkpoints
        earlier = [row for row in RunReader(self._run).metrics().rows if row.step < self.steps_done]
        self._flat_steps = sum(_is_flat(row.metrics) for row in earlier)

    def record_step(self, done: int, logs: Mapping[str, float | None]) -> None:
        """The trainer logs a step, after which the policy has had so many.

        Raises:
            TrainingError: If the loss or its gradient is no number.
        """
        training = self._training
        counted = training.take()
        step = done - 1
        self.steps_done = done
        waited = math.fsum(call.seconds for call in counted.calls)
        metrics: dict[str, float | None] = {
            **counted.metrics,
            **training.recorder.held.metrics,
            **{name: logs[name] for name in logs if name in _OF_TRAINER or name.startswith(_FAMILIES_OF_TRAINER)},
            "step_seconds": training.step_seconds,
            "reward_seconds": waited,
            **training.idle_metrics(waited),
        }
        if self._schedule is not None:
            # A checkpoint of this step follows, with what is known of the problems.
            note_all(self._schedule, counted.completions)
            metrics["epoch"] = passes_of(self._schedule, len(self._context.sets.train))
        if step in self.evaluations:
            metrics |= self.evaluations[step].metrics
        wrong = training.record_step(step, StepFinished(step, self._config.steps, metrics))
        self._flat_steps += _is_flat(metrics)
        if wrong is not None:
            title = "loss" if wrong == "loss" else "norm of the gradient"
            raise self.collapsed(f"the {title} of step {step} is not a number, so the policy is unusable")

    def check_that_rewards_trained(self) -> None:
        """Makes sure that rewards have moved the policy.

        Raises:
            TrainingError: If they never differed within a group, in none of the steps of the run.
        """
        if not self.steps_done or self._flat_steps < self.steps_done:
            return
        terms = ", ".join(_further_terms(self._config))
        what = f"rewards have trained nothing, only {terms} changed the policy" if terms else "nothing was trained"
        raise TrainingError(
            f"{what}: within each problem, all rewards were equal in all {self.steps_done} steps",
            hint="easier problems, more `samples` or a higher `temperature` make rewards differ",
            fields=("samples", "temperature"),
        )

    def begin_evaluation(self, done: int) -> None:
        self._training.session.log.step = done
        self._training.emit(EvaluationStarted(done, len(self._context.sets.evaluation)))

    def record_evaluation(self, done: int, sampled: EventCounts, greedy: EventCounts | None) -> None:
        """An evaluation of sampled, and perhaps greedy, answers is over."""
        training, session = self._training, self._training.session
        metrics = _held_out(sampled.completions, None if greedy is None else greedy.completions)
        checkpoint = None
        if self.checkpoint is not None and self.checkpoint.step == done:
            path, run = self.checkpoint.path, self._run
            checkpoint = str(path.relative_to(run) if path.is_relative_to(run) else path)
        row = EvaluationRow(
            job_id=session.writer.job_id,
            step=done,
            attempt=session.attempt,
            problems=len(self._context.sets.evaluation),
            is_held_out=self._context.sets.is_held_out,
            metrics=metrics,
            checkpoint=checkpoint,
        )
        self.evaluations[done] = row
        if self._processes.is_first:
            session.writer.append(row)
        if done == self._config.steps:
            # No step follows whose row it could be in.
            training.recorder.write(done, metrics)
        training.emit(EvaluationFinished(done, len(self._context.sets.evaluation), metrics))
        if done == self._config.steps:
            training.health.add(done, metrics)

    @property
    def best(self) -> BestCheckpoint | None:
        """The best checkpoint so far; None before one was evaluated."""
        return best_checkpoint(self._run, self.evaluations.values())

    def record_checkpoint(self, done: int, *, is_sound: bool) -> None:
        """The trainer has saved a checkpoint, this process's part of it at least.

        Raises:
            TrainingError: If its weights are not numbers (`is_sound`); the checkpoint does not count then.
        """
        if not all(self._processes.gather([is_sound])):
            raise self.collapsed(f"step {done - 1} produced weights that are not numbers, so the policy is unusable")
        self._processes.wait()
        if self._processes.is_first:
            self.checkpoint = mark_whole(self._checkpoints, done, run=self._run)
            best = self.best
            most = self._config.keep_checkpoints
            remove_old(self._checkpoints, most, besides=None if best is None else best.path)
            self._training.emit(CheckpointSaved(done, str(self.checkpoint.path)))

    def collapsed(self, message: str) -> TrainingError:
        """What a run ends with whose policy is lost: how that shows, and the last good checkpoint."""
        hint, fields = "try a smaller learning_rate", ("learning_rate",)
        if self.checkpoint is None:
            return TrainingError(f"{message}; no earlier checkpoint was saved", hint=hint, fields=fields)
        message = f"{message}; the last good checkpoint is {self.checkpoint.path}"
        hint = f"start from it: sandrl {self._context.loader.command} --init-from {self._run.name} --learning-rate …"
        return TrainingError(message, hint=hint)


def _is_flat(metrics: Mapping[str, float | None]) -> bool:
    # Without completions it was a further pass over those of an earlier step.
    is_new = bool(metrics.get("completions"))
    return is_new and metrics.get("reward/zero_variance_groups") == metrics.get("reward/groups")


def _further_terms(config: GrpoConfig) -> list[str]:
    # What changes a policy also where all rewards of a group are equal; dynamic sampling masks the tokens of the group.
    given = {"beta": config.beta, **config.set}
    of_tokens = () if config.dynamic_sampling else ("beta", "entropy_coef")
    return [name for name in (*of_tokens, "weight_decay") if given.get(name)]


def _held_out(sampled: Sequence[FinishedCompletion], greedy: Sequence[FinishedCompletion] | None) -> Values:
    estimates = pass_at(sampled)
    found = named("held_out/pass@1", estimates.get(1))
    for k, each in estimates.items():
        found |= named(f"held_out/pass@{k}", each)
    found["held_out/problems"] = float(estimates[1].problems if estimates else 0)
    if greedy is not None:
        likeliest = pass_at(greedy).get(1)
        found |= named("held_out/greedy", likeliest)
        found["held_out/greedy_problems"] = float(0 if likeliest is None else likeliest.problems)
    return found
