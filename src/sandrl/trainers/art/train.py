"""The training loop with ART: run episodes, perform a backend step, write a row; repeat.

A round is the episodes that are run or read for one step. Every round is a step in the metrics, even if it had no
gradient: without those rounds, the curve would describe a different policy. Only the backend's step counts as progress,
and a training fails after several rounds in a row without a gradient.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import replace
from statistics import pstdev

from sandrl.config.art import ArtBackendKind, ArtTrainConfig
from sandrl.errors import BudgetError, InterruptedRunError, MissingExtraError, SandrlError, TrainingError
from sandrl.events import (
    ArtStepFailed,
    ArtStepStarted,
    ArtStepTrained,
    ArtTrainingStarted,
    BackendChosen,
    Emit,
    ProblemPlayed,
    TrajectoriesCollected,
    ignore,
)
from sandrl.models import Sampling
from sandrl.models.endpoint import EndpointModel
from sandrl.models.libraries import versions
from sandrl.rewards.calibration import packages_of
from sandrl.rewards.judge import judge_version
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.rewards.weak_checks import warn_of_weak_checks
from sandrl.rollouts.episodes import Episode
from sandrl.rollouts.records import result_of
from sandrl.rollouts.steps import PlayedStep, StepOptions, StepPlayer, problems_of
from sandrl.rollouts.tools import TOOL_SCHEMAS
from sandrl.runs import RunWriter
from sandrl.runs.flags import Flag
from sandrl.runs.resumption import PROBLEMS_DIGEST, check_unchanged
from sandrl.runs.session import RunPlan, RunSession, open_run
from sandrl.sandboxes import Connection, Interrupt, SandboxRequest, new_job_id
from sandrl.sandboxes.spending import Allowance
from sandrl.settings import Settings
from sandrl.trainers.art import libraries
from sandrl.trainers.art.backend import Trained, TrainedModel, left_out
from sandrl.trainers.art.checks import Checked, check
from sandrl.trainers.art.embedding import cancelled_at_its_end, check_running, keep_log, serve_embedded
from sandrl.trainers.art.groups import Group, groups_of, why_no_gradient, with_gradient
from sandrl.trainers.art.history import GRADIENT_STEPS, STEP, art_directory, check_sound, next_round
from sandrl.trainers.art.loop import EventLoop
from sandrl.trainers.art.results import COMMAND, ArtRequest, ArtRun, Round
from sandrl.trainers.art.watch import watched
from sandrl.trainers.budget import StepBudget
from sandrl.trainers.library_output import FILE, PrintedFile
from sandrl.trainers.tinker.embedded import embedded_service
from sandrl.trainers.tinker.options import EXTRA

WORKFLOW_TAG = "art-training"

MOST_ATTEMPTS = 3
"""How many rounds in a row may teach nothing before the training has failed."""

# Episodes end when the model does; their sandboxes must outlive the slowest.
_EPISODE_SECONDS = 3600.0
_PACKAGES = {
    ArtBackendKind.TINKER: ("openpipe-art", "tinker", "tinker-cookbook", "torch", "transformers"),
    ArtBackendKind.EMBEDDED: ("openpipe-art", "tinker", "tinker-cookbook", "torch", "transformers"),
    ArtBackendKind.LOCAL: ("openpipe-art", "torch", "transformers", "unsloth"),
}
# What ART calls the numbers that every trainer has.
_KNOWN = {"loss": ("loss/train", "loss:mean"), "grad_norm": ("loss/grad_norm", "grad_norm", "unclipped_grad_l2:mean")}
_LOSS_SUM = "loss:sum"


def run_art(
    request: ArtRequest, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> ArtRun:
    """Trains a model on episodes in sandboxes, and leaves a run directory.

    Args:
        request: What to train.
        settings: What the environment says.
        emit: Told what happens.
        interrupt: The user's wish to stop.

    Raises:
        UsageError: If options, problems, extras or hardware do not fit.
        BudgetError: If the budget was used up in the middle of a step.
        ServiceError: If a service does not answer, or refuses.
        TrainingError: If the loss is no number.
        InterruptedRunError: If the user did not want the step in hand to be finished.
    """
    interrupt = interrupt or Interrupt()
    with ExitStack() as stack:
        stack.enter_context(libraries.kept_quiet())
        asked = request.config
        allowance = SandboxRequest.of(asked).allowance(settings, run=request.resume)
        emit(BackendChosen(asked.backend.value, request.why, asked.base_model))
        service = None
        if asked.backend is ArtBackendKind.EMBEDDED:
            # A missing extra is an error of `check`, after those of the options.
            with suppress(MissingExtraError):
                libraries.check_installed(EXTRA)
                service = stack.enter_context(embedded_service())
        checked = check(request, settings, spends=True, emit=emit)
        config = checked.config
        if request.resume is not None:
            check_sound(request.resume)
            source = config.trajectories or config.problems
            check_unchanged(request.resume, checked.digest, repr(source))
        connection = None
        if not checked.recorded:
            warn_of_weak_checks(checked.problems, settings.state_dir, emit)
            connection = SandboxRequest.of(config).connect(settings, needed=packages_of(checked.problems), emit=emit)
        plan = RunPlan(
            command=COMMAND,
            job_id=new_job_id(),
            options={
                **config.document(),
                PROBLEMS_DIGEST: checked.digest,
                TOOL_SCHEMAS: [dict(tool) for tool in checked.tools],
                **({**connection.facts(), **allowance.facts} if connection is not None else {}),
            },
            changes={"steps": config.steps, "budget": config.budget, **allowance.facts},
            versions={"judge": judge_version(), **versions(_PACKAGES[config.backend])},
            runs_dir=config.runs_dir,
            name=config.run_name,
            log_level=config.log_level,
            resume=request.resume,
            report_to=config.report_to,
            project=config.project,
            is_training=True,
        )
        session = stack.enter_context(open_run(plan, settings, interrupt=interrupt, emit=emit))
        writer = session.writer
        session.stack.enter_context(redirect_stdout(PrintedFile(writer.path / FILE)))
        loop = session.stack.enter_context(EventLoop(interrupt, emit))
        try:
            if service is not None:
                session.stack.callback(keep_log, service, writer.path)
                settings = serve_embedded(
                    service,
                    config,
                    settings,
                    model=checked.model,
                    run=writer.path,
                    interrupt=interrupt,
                )
            model = _model(config, settings, writer, loop, checked.model)
            session.stack.callback(model.close)
            training = _Training(config, checked, model, session, emit, interrupt)
            if connection is not None:
                training.open_stage(connection, allowance)
            session.stack.enter_context(watched(model.check_alive, emit))
            if service is not None:
                session.stack.enter_context(cancelled_at_its_end(service, interrupt))
            training.run()
            if service is not None and training.step < config.steps:
                check_running(service, writer.run_id)
        except SandrlError as error:
            if service is not None:
                check_running(service, writer.run_id, error)
            if not isinstance(error, InterruptedRunError):
                raise
            if interrupt.is_exhausted:
                raise BudgetError(
                    f"{session.exhausted} before the current step was trained; the steps before it are saved in"
                    f" {writer.path}",
                    hint=f"sandrl art train --resume {writer.run_id} --budget … continues with a larger budget",
                    fields=("budget",),
                ) from error
            raise InterruptedRunError(
                f"interrupted before the current step was trained; the steps before it are saved in {writer.path}",
                signal_number=error.signal_number,
                hint=f"sandrl art train --resume {writer.run_id}",
            ) from error
        run = ArtRun(
            writer.job_id,
            writer.path,
            first_step=training.first_step,
            step=training.step,
            of=config.steps,
            rounds=tuple(training.rounds),
            is_short=training.is_short,
            flags=training.flags,
        )
        session.failure = run.failure
        session.is_complete = interrupt.is_exhausted and run.step >= run.of
    return replace(
        run,
        signal_number=interrupt.signal_number,
        cleanup_error=session.cleanup_error(),
        held=None if connection is None else session.held(),
        exhausted=session.exhausted,
    )


def _model(config: ArtTrainConfig, settings: Settings, writer: RunWriter, loop: EventLoop, served: str) -> TrainedModel:
    path = art_directory(writer.path)
    if config.backend is not ArtBackendKind.LOCAL:
        from sandrl.trainers.art.tinker import TinkerModel

        return TinkerModel(config, settings, name=writer.run_id, path=path, model=served, loop=loop)
    from sandrl.trainers.art.local import LocalModel

    return LocalModel(config, name=writer.run_id, path=path, loop=loop)


class _Training:
    """Plays and trains, round by round."""

    def __init__(
        self,
        config: ArtTrainConfig,
        checked: Checked,
        model: TrainedModel,
        session: RunSession,
        emit: Emit,
        interrupt: Interrupt,
    ) -> None:
        self.rounds: list[Round] = []
        self.first_step = self.step = model.step
        self.is_short = False
        self._config = config
        self._checked = checked
        self._model = model
        self._session = session
        self._interrupt = interrupt
        self._emit = emit
        self._round = next_round(session.writer, model.step)
        self._recorder = session.recorder(first_step=self._round)
        self._health = session.health(self._round)
        self._stop = threading.Event()
        self._player: StepPlayer | None = None
        self._budget: StepBudget | None = None
        self._teacher: EndpointModel | None = None

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The flags that stand after the latest round."""
        return self._health.flags

    def open_stage(self, connection: Connection, allowance: Allowance) -> None:
        """Makes the job whose sandboxes the episodes are played in."""
        config, checked, session = self._config, self._checked, self._session
        tell = session.told(self._recorder)
        actor = config.base_model if checked.teacher is None else config.teacher
        lifetime = lifetime_seconds({each.task_id: each for each in checked.problems}, ScoreOptions.of(config).limits)
        tags = (WORKFLOW_TAG, f"project:{config.project}", f"run-name:{session.writer.run_id}", *session.tags)
        job = session.own(
            SandboxRequest.of(config, *tags, f"model:{actor}").job(
                connection,
                command=COMMAND,
                max_lifetime_seconds=_EPISODE_SECONDS + lifetime,
                writer=session.writer,
                allowance=allowance,
                interrupt=self._interrupt,
                emit=tell,
            )
        )
        self._budget = StepBudget(job)
        # Before the job ends: who waits for an endpoint must not come back to a job that is over.
        session.stack.callback(self._stop.set)
        options = StepOptions.of(
            config, checked.prompting, samples=config.samples, problems=config.groups, attempt=session.attempt
        )
        self._player = StepPlayer(
            options, job=job, writer=session.writer, emit=tell, interrupt=self._interrupt, stop=self._stop
        )

    def run(self) -> None:
        """Trains until the last step, or until there is a reason not to go on."""
        config, checked = self._config, self._checked
        self._emit(
            ArtTrainingStarted(
                self._session.writer.run_id,
                base_model=config.base_model,
                backend=config.backend.value,
                actor="" if checked.recorded else (config.base_model if checked.teacher is None else config.teacher),
                problems=len(checked.problems),
                first_step=self.step,
                steps=config.steps,
                episodes=config.episodes_per_step,
            )
        )
        attempt = 1
        while self.step < config.steps and not self._interrupt.level:
            if checked.recorded and self._round >= len(checked.recorded):
                self.is_short = True
                return
            if self._budget is not None:
                self._budget.begin_step()
            done = self._one_round(attempt)
            if self._budget is not None:
                self._budget.end_step(is_last=self.step >= config.steps)
            attempt = attempt + 1 if done.failure else 1
            if done.dropped and not done.trajectories:
                self._model.check_alive()
            if attempt > MOST_ATTEMPTS and not checked.recorded:
                return

    def _one_round(self, attempt: int) -> Round:
        began = time.monotonic()
        self._session.log.step = self._round
        if self._checked.recorded:
            groups, played = self._checked.recorded[self._round], None
            self._emit(ArtStepStarted(self.step + 1, attempt, len(groups)))
        else:
            played = self._play(attempt)
            groups = groups_of(played.episodes)
        dropped = 0 if played is None else played.result.dropped
        rewards = [sample.reward for group in groups for sample in group.samples]
        mean = math.fsum(rewards) / len(rewards) if rewards else None
        useful = with_gradient(groups, needs_logprobs=self._model.needs_logprobs)
        self._emit(TrajectoriesCollected(self.step + 1, len(rewards), dropped, mean, len(groups), len(useful)))
        trained, unscored, failure = self._train(groups, useful, dropped)
        metrics = _metrics(trained, unscored, time.monotonic() - began)
        if played is None:
            whole = [group for group in groups if len(group.samples) > 1]
            metrics |= {"reward/mean": mean, "reward/std": pstdev(rewards) if rewards else None}
            metrics["reward/groups"] = float(len(whole))
            metrics["reward/zero_variance_groups"] = float(sum(not group.has_gradient for group in whole))
        written = self._recorder.log(self._round, {**(played.metrics if played is not None else {}), **metrics})
        before, self.step = self.step, trained.step
        done = Round(self.step, len(rewards), dropped, mean, {} if failure else metrics, failure)
        self.rounds.append(done)
        if failure:
            self._emit(ArtStepFailed(before + 1, attempt, failure, written))
        else:
            self._emit(ArtStepTrained(self.step, written))
        self._health.add(self._round, written)
        self._round += 1
        if failure and trained.step > before:
            # As ART's local backend does; to go on from there would be to count what was none.
            raise TrainingError(f"step {trained.step} had no gradient, but the backend counted it: {failure}")
        wrong = next((name for name in _KNOWN if not math.isfinite(metrics.get(name) or 0.0)), None)
        if wrong is not None:
            raise TrainingError(
                f"the {wrong} of step {self.step} is not a number, so the model is unusable from that step on",
                hint="start a new run with a smaller learning rate",
            )
        return done

    def _play(self, attempt: int) -> PlayedStep:
        config = self._config
        assert self._player is not None, "it exists only if episodes are run"
        problems = problems_of(self._round, config.groups, self._checked.problems)
        self._emit(ArtStepStarted(self.step + 1, attempt, len(problems)))
        left = dict.fromkeys((problem.task_id for problem in problems), config.samples)
        rewards: defaultdict[str, list[float | None]] = defaultdict(list)

        def note(episode: Episode) -> None:
            task_id = episode.problem.task_id
            rewards[task_id].append(result_of(episode).reward)
            left[task_id] -= 1
            if not left[task_id]:
                finished = sum(not count for count in left.values())
                self._emit(ProblemPlayed(task_id, tuple(rewards[task_id]), finished, len(left)))

        played = self._player.play(self._round, problems, self._actor(), on_end=note)
        if played.unfinished:
            raise InterruptedRunError("interrupted", signal_number=self._interrupt.signal_number)
        return played

    def _actor(self) -> EndpointModel:
        """Who plays: the teacher, or the trained model as it is now, which has another name after each step."""
        config = self._config
        sampling = Sampling.of(config)
        if self._checked.teacher is None:
            return EndpointModel(self._model.endpoint, self._model.name, sampling, stop=self._stop, emit=self._emit)
        if self._teacher is None:
            self._teacher = EndpointModel(
                self._checked.teacher, config.teacher, sampling, stop=self._stop, emit=self._emit
            )
        return self._teacher

    def _train(self, groups: Sequence[Group], useful: Sequence[Group], dropped: int) -> tuple[Trained, int, str]:
        """Takes a step, if there is something to learn.

        Returns:
            What it did, how many episodes have no logprobs to be trained with, and why nothing was trained; empty if
            something was.
        """
        model, tools = self._model, self._checked.tools
        nothing = Trained(self.step, gradient_steps=0, tokens=0)
        if not useful:
            unscored = left_out(groups) if model.needs_logprobs else 0
            return nothing, unscored, why_no_gradient(groups, dropped, needs_logprobs=model.needs_logprobs)
        # What others said gets its logprobs from the model that learns from it.
        scored = groups if model.needs_logprobs else model.score(useful, tools)
        unscored, learnable = left_out(scored), with_gradient(scored, needs_logprobs=True)
        if not learnable:
            lost = f"{unscored} episodes could not be scored under {self._config.base_model}"
            return nothing, unscored, f"{lost}: usually because they are longer than its context"
        trained = model.train(learnable, tools, learning_rate=self._config.learning_rate)
        if not trained.gradient_steps:
            why = "the backend had nothing to train on; see printed.log in the run directory"
            return trained, unscored, why
        return trained, unscored, ""


def _metrics(trained: Trained, unscored: int, seconds: float) -> dict[str, float | None]:
    """What a step amounted to, the backend's own numbers under names that all trainers share, or `art/`."""
    left = dict(trained.metrics)
    metrics: dict[str, float | None] = {
        STEP: float(trained.step),
        GRADIENT_STEPS: float(trained.gradient_steps),
        "train/tokens": float(trained.tokens),
        "train/left_out": float(unscored),
        "step_seconds": seconds,
    }
    for name, theirs in _KNOWN.items():
        found = next((each for each in theirs if each in left), None)
        if found is not None:
            metrics[name] = float(left.pop(found))
    if "loss" not in metrics and _LOSS_SUM in left and trained.tokens:
        metrics["loss"] = float(left[_LOSS_SUM]) / trained.tokens
    return metrics | {f"art/{name}": float(value) for name, value in left.items()}
