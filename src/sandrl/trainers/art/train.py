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
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from statistics import fmean, pstdev

from sandrl.config.art import ArtBackendKind, ArtTrainConfig
from sandrl.config.episodes import at_once
from sandrl.config.words import Overlap
from sandrl.errors import InterruptedRunError, MissingExtraError, SandrlError, TrainingError
from sandrl.events import (
    BackendChosen,
    Emit,
    ProblemPlayed,
    StepFinished,
    StepStarted,
    TrainingStarted,
    TrajectoriesCollected,
    ignore,
)
from sandrl.models import Sampling
from sandrl.models.endpoint import EndpointModel
from sandrl.models.libraries import versions
from sandrl.rollouts.episodes import Episode, EpisodeOptions, has_tasks
from sandrl.rollouts.results import PlayedStep, result_of
from sandrl.rollouts.steps import EPISODE_SECONDS, StepPlayer
from sandrl.runs.config import TOOL_SCHEMAS
from sandrl.runs.metrics import GENERATED_GROUPS, MISSING_GROUPS, REPLACED_GROUPS, TRUNCATED
from sandrl.runs.resumption import check_unchanged
from sandrl.runs.session import RunSession
from sandrl.sandboxes import Interrupt, SandboxRequest
from sandrl.settings import Settings
from sandrl.trainers.art import libraries
from sandrl.trainers.art.ahead import PlayAhead
from sandrl.trainers.art.backend import StepResult, TrainedModel
from sandrl.trainers.art.checks import COMMAND, ArtRequest, CheckResult, check
from sandrl.trainers.art.groups import (
    Group,
    groups_of,
    left_out,
    why_no_gradient,
    with_gradient,
    without_truncated,
)
from sandrl.trainers.art.loop import EventLoop, watched
from sandrl.trainers.art.results import (
    ArtRun,
    Round,
    art_directory,
    check_sound,
    next_round,
    step_metrics,
    stop_of,
)
from sandrl.trainers.order import KeptOrder, keep_order, note_all, restore_order
from sandrl.trainers.tinker.embedded import EmbeddedService
from sandrl.trainers.tinker.options import EXTRA
from sandrl.trainers.training import PRINTED, Setup, Stop, Training, run_training

_WORKFLOW_TAG = "art-training"
_TINKER_PACKAGES = ("openpipe-art", "tinker", "tinker-cookbook", "torch", "transformers")
_PACKAGES = {
    ArtBackendKind.LOCAL: ("openpipe-art", "torch", "transformers", "unsloth"),
    ArtBackendKind.SERVERLESS: ("openpipe-art", "openai"),
}


def run_art(
    request: ArtRequest, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> ArtRun:
    """Trains a model on episodes in sandboxes, and leaves a run directory.

    Raises:
        UsageError: If options, problems, extras or hardware do not fit.
        BudgetError: If the budget was used up in the middle of a step.
        ServiceError: If a service does not answer, or refuses.
        TrainingError: If the loss is no number.
        InterruptedRunError: If the user did not want the current step to be finished.
    """
    interrupt = interrupt or Interrupt()
    config = request.config
    with ExitStack() as stack:
        stack.enter_context(libraries.kept_quiet())
        allowance = SandboxRequest.of(config).allowance(settings, run=request.resume)
        emit(BackendChosen(config.backend.value, request.why, config.base_model))
        service = None
        if config.backend is ArtBackendKind.EMBEDDED:
            # A missing extra is an error of `check`, after those of the options.
            with suppress(MissingExtraError):
                libraries.check_installed(EXTRA)
                service = EmbeddedService()
                stack.callback(service.close)
        checked = check(request, settings, spends=True, emit=emit)
        config = checked.config
        if request.resume is not None:
            check_sound(request.resume)
            check_unchanged(request.resume, checked.digest, repr(config.trajectories or config.problems))
        setup = Setup(
            command=COMMAND,
            config=config,
            problems={each.task_id: each for each in checked.problems},
            digest=checked.digest,
            tags=(_WORKFLOW_TAG, f"project:{config.project}"),
            versions=versions(_PACKAGES.get(config.backend, _TINKER_PACKAGES)),
            facts={TOOL_SCHEMAS: [dict(tool) for tool in checked.tools]},
            resume=request.resume,
            quality=checked.quality,
            profile=checked.profile,
        )
        return run_training(
            ArtEngine(checked, settings, service, interrupt, emit),
            setup,
            settings,
            allowance,
            interrupt=interrupt,
            emit=emit,
        )


class ArtEngine:
    """Trains a model on rounds of episodes, with the backend that its configuration names."""

    def __init__(
        self,
        checked: CheckResult,
        settings: Settings,
        service: EmbeddedService | None,
        interrupt: Interrupt,
        emit: Emit,
    ) -> None:
        self._checked = checked
        self._config: ArtTrainConfig = checked.config
        self._settings = settings
        self._service = service
        self._interrupt = interrupt
        self._emit = emit
        self._done: list[Round] = []
        self._first_step = self._step = self._round = 0
        self._is_short = False
        self._stop = threading.Event()
        self._ahead = PlayAhead[tuple[PlayedStep, KeptOrder]](interrupt)
        self._player: StepPlayer | None = None
        self._teacher: EndpointModel | None = None
        self._problems = {problem.task_id: problem for problem in checked.problems}
        self._schedule = checked.schedule() if checked.problems else None

    def train(self, training: Training) -> None:
        service, session = self._service, training.session
        writer = session.writer
        loop = session.stack.enter_context(EventLoop(self._interrupt, self._emit))
        try:
            if service is not None:
                session.stack.callback(service.keep_log, writer.path)
                self._settings = service.serve(
                    self._config,
                    self._settings,
                    model=self._checked.model,
                    run=writer.path,
                    interrupt=self._interrupt,
                )
            model = self._open_model(session, loop)
            session.stack.callback(model.close)
            self._first_step = self._step = model.step
            self._round = next_round(writer, model.step, model.found)
            if self._schedule is not None:
                restore_order(self._schedule, art_directory(writer.path), self._round, self._config.groups)
            training.count_from(self._round)
            # What no step has written by the end is written then.
            session.stack.enter_context(training.recorder)
            if not self._checked.recorded:
                self._player = self._make_player(training)
            session.stack.enter_context(watched(model.check_alive, self._emit))
            if service is not None:
                session.stack.enter_context(service.cancelling(self._interrupt))
            self._run(training, model)
            if service is not None and self._step < self._config.steps:
                service.check_running(writer.run_id)
        except SandrlError as error:
            if service is not None:
                service.check_running(writer.run_id, error)
            raise

    def stop(self, training: Training) -> Stop:
        writer = training.session.writer
        saved = f"the steps before it are saved in {writer.path}"
        return stop_of(f"interrupted before the current step was trained; {saved}", writer.run_id)

    def result(self, training: Training) -> ArtRun:
        writer = training.session.writer
        return ArtRun(
            job_id=writer.job_id,
            run_dir=writer.path,
            first_step=self._first_step,
            steps=self._step,
            of=self._config.steps,
            rounds=tuple(self._done),
            is_short=self._is_short,
            flags=training.health.flags,
        )

    def _open_model(self, session: RunSession, loop: EventLoop) -> TrainedModel:
        config, name = self._config, session.writer.run_id
        path = art_directory(session.writer.path)
        if config.backend is ArtBackendKind.SERVERLESS:
            from sandrl.trainers.art.serverless import ServerlessModel

            is_new = session.attempt == 1
            return ServerlessModel(
                config, self._settings, name=name, path=path, loop=loop, is_new=is_new, emit=self._emit
            )
        if config.backend is not ArtBackendKind.LOCAL:
            from sandrl.trainers.art.tinker import TinkerModel

            return TinkerModel(config, self._settings, name=name, path=path, model=self._checked.model, loop=loop)
        from sandrl.trainers.art.local import LocalModel

        return LocalModel(config, name=name, path=path, loop=loop, chat_template=self._checked.chat_template)

    def _make_player(self, training: Training) -> StepPlayer:
        config, session = self._config, training.session
        tags = (f"run-name:{session.writer.run_id}", f"model:{self._actor_name}")
        job = training.own_job(*tags, more_seconds=EPISODE_SECONDS)
        # Before the job ends: who waits for an endpoint must not come back to a job that is over.
        session.stack.callback(self._stop.set)
        session.stack.callback(self._ahead.close)
        training.before_rest = self._ahead.close
        return StepPlayer(
            config,
            EpisodeOptions.of(config, self._checked.prompting),
            job=job,
            writer=session.writer,
            emit=self._ahead.holding(training.tell),
            interrupt=self._ahead.interrupt,
            stop=self._stop,
            concurrency=at_once(config, config.episodes_per_step, has_tasks=has_tasks(self._checked.problems)),
            attempt=session.attempt,
        )

    @property
    def _actor_name(self) -> str:
        return self._config.base_model if self._checked.teacher is None else self._config.teacher

    def _run(self, training: Training, model: TrainedModel) -> None:
        config, checked = self._config, self._checked
        self._emit(
            TrainingStarted(
                training.session.writer.run_id,
                model=config.base_model,
                problems=len(checked.problems),
                first_step=self._step,
                steps=config.steps,
                completions=config.episodes_per_step,
                backend=config.backend.value,
                actor="" if checked.recorded else self._actor_name,
            )
        )
        attempt = 1
        while self._step < config.steps and not self._interrupt.level:
            if checked.recorded and self._round >= len(checked.recorded):
                self._is_short = True
                return
            training.begin_step(self._round)
            done = self._one_round(training, model, attempt)
            training.end_step(is_last=self._step >= config.steps)
            attempt = attempt + 1 if done.failure else 1
            if done.dropped and not done.trajectories:
                model.check_alive()
            if attempt > config.max_flat_rounds and not checked.recorded:
                return

    def _one_round(self, training: Training, model: TrainedModel, attempt: int) -> Round:
        steps, began = self._config.steps, time.monotonic()
        if self._checked.recorded:
            groups, played = self._checked.recorded[self._round], None
            self._emit(StepStarted(self._step, steps, attempt, len(groups)))
        else:
            played = self._play(training, model, attempt)
            groups = groups_of(played.episodes)
            self._begin_ahead(model)
        waited = time.monotonic() - began
        dropped = 0 if played is None else played.dropped
        rewards = [sample.reward for group in groups for sample in group.samples]
        mean = math.fsum(rewards) / len(rewards) if rewards else None
        kept = without_truncated(groups) if self._config.mask_truncated else groups
        truncated = len(rewards) - sum(len(group.samples) for group in kept)
        useful = with_gradient(kept, needs_logprobs=model.needs_logprobs)
        self._emit(TrajectoriesCollected(len(rewards), dropped, mean, len(groups), len(useful)))
        trained, unscored, failure = self._learn(model, kept, useful, dropped, truncated)
        metrics = _metrics(trained, unscored, training.step_seconds) | training.idle_metrics(waited)
        if self._config.mask_truncated:
            metrics[TRUNCATED] = float(truncated)
        if self._config.dynamic_sampling and played is not None:
            metrics |= self._sampling_metrics(played, useful)
        counted = training.take()
        if played is None:
            whole = [group for group in groups if len(group.samples) > 1]
            metrics |= {"reward/mean": mean, "reward/std": pstdev(rewards) if rewards else None}
            metrics["reward/groups"] = float(len(whole))
            metrics["pass_rate"] = fmean(each.is_pass for group in groups for each in group.samples)
            metrics["reward/zero_variance_groups"] = float(sum(not group.has_gradient for group in whole))
            seen = counted.judge_metrics
        else:
            seen = {**counted.metrics, **played.metrics}
        before, self._step = self._step, trained.step
        done = Round(self._step, len(rewards), dropped, mean, {} if failure else metrics, failure)
        self._done.append(done)
        written = {**seen, **training.recorder.held.metrics, **metrics}
        event = StepFinished(before if failure else self._step - 1, steps, written, failure, attempt)
        wrong = training.record_step(self._round, event)
        self._round += 1
        if failure and trained.step > before:
            # As ART's local backend does; to go on from there would be to count what was none.
            raise TrainingError(f"step {trained.step} had no gradient, but the backend counted it: {failure}")
        if wrong is not None:
            raise TrainingError(
                f"the {wrong} of step {self._step} is not a number, so the model is unusable from that step on",
                hint="start a new run with a smaller learning rate",
            )
        return done

    def _play(self, training: Training, model: TrainedModel, attempt: int) -> PlayedStep:
        self._emit(StepStarted(self._step, self._config.steps, attempt, self._config.groups))
        played, kept = self._ahead.take() or self._play_round(model, self._actor(model), self._round)
        keep_order(art_directory(training.session.writer.path), kept)
        return played

    def _begin_ahead(self, model: TrainedModel) -> None:
        # The model as it is now plays it: under its name of now, also when it has another one.
        if self._config.overlap is Overlap.STEP and self._step + 1 < self._config.steps and not self._interrupt.level:
            self._ahead.begin(partial(self._play_round, model, self._actor(model), self._round + 1))

    def _play_round(self, model: TrainedModel, actor: EndpointModel, number: int) -> tuple[PlayedStep, KeptOrder]:
        # The episodes of a round, with those of further problems where groups have no gradient.
        config, schedule = self._config, self._schedule
        assert schedule is not None, "there are problems where episodes are run"
        before = schedule.state
        names = schedule.take(config.groups)
        played = self._play_groups(actor, number, names)
        left = config.dynamic_sampling * config.groups
        taken = set(names)
        while left and (missing := config.groups - len(self._useful(played, model))) > 0:
            names = schedule.take(min(missing, left), besides=taken)
            if not names:
                break
            left -= len(names)
            taken.update(names)
            played = played.plus(self._play_groups(actor, number, names, first=len(played.episodes)))
        note_all(schedule, played.results)
        return played, KeptOrder(round=number, before=before, after=schedule.state)

    def _useful(self, played: PlayedStep, model: TrainedModel) -> tuple[Group, ...]:
        groups = groups_of(played.episodes)
        kept = without_truncated(groups) if self._config.mask_truncated else groups
        return with_gradient(kept, needs_logprobs=model.needs_logprobs)

    def _sampling_metrics(self, played: PlayedStep, useful: Sequence[Group]) -> dict[str, float]:
        groups = self._config.groups
        generated = {episode.problem.task_id for episode in played.episodes}
        first = {each.problem.task_id for each in played.episodes if each.number < self._config.episodes_per_step}
        return {
            GENERATED_GROUPS: float(len(generated)),
            REPLACED_GROUPS: float(sum(group.task_id not in first for group in useful)),
            MISSING_GROUPS: float(groups - len(useful)),
        }

    def _play_groups(self, actor: EndpointModel, number: int, names: Sequence[str], *, first: int = 0) -> PlayedStep:
        config = self._config
        assert self._player is not None, "it exists only if episodes are run"
        left = dict.fromkeys(names, config.samples)
        ended = first // config.samples
        rewards: defaultdict[str, list[float | None]] = defaultdict(list)
        tell = self._ahead.holding(self._emit)

        def note(episode: Episode) -> None:
            task_id = episode.problem.task_id
            rewards[task_id].append(result_of(episode).reward)
            left[task_id] -= 1
            if not left[task_id]:
                finished = ended + sum(not count for count in left.values())
                tell(ProblemPlayed(task_id, tuple(rewards[task_id]), finished, ended + len(left)))

        problems = [self._problems[name] for name in names]
        played = self._player.play(number, problems, config.samples, actor, first=first, on_end=note)
        if played.unfinished:
            raise InterruptedRunError("interrupted", signal_number=self._interrupt.signal_number)
        return played

    def _actor(self, model: TrainedModel) -> EndpointModel:
        # The teacher, or the trained model as it is now, which has another name after each step.
        config = self._config
        sampling = Sampling.of(config)
        if self._checked.teacher is None:
            sampling = replace(sampling, extra_body={**model.extra_body, **sampling.extra_body})
            return EndpointModel(model.endpoint, model.name, sampling, stop=self._stop, emit=self._emit)
        if self._teacher is None:
            self._teacher = EndpointModel(
                self._checked.teacher, config.teacher, sampling, stop=self._stop, emit=self._emit
            )
        return self._teacher

    def _learn(
        self,
        model: TrainedModel,
        groups: Sequence[Group],
        useful: Sequence[Group],
        dropped: int,
        truncated: int,
    ) -> tuple[StepResult, int, str]:
        # What the step did, how many episodes have no logprobs to be trained with, and why nothing was trained, if so.
        tools = self._checked.tools
        nothing = StepResult(self._step, gradient_steps=0, tokens=0)
        if not useful:
            unscored = left_out(groups) if model.needs_logprobs else 0
            return nothing, unscored, why_no_gradient(groups, dropped, truncated, needs_logprobs=model.needs_logprobs)
        # What others said gets its logprobs from the model that learns from it.
        scored = groups if model.needs_logprobs else model.score(useful, tools)
        unscored, learnable = left_out(scored), with_gradient(scored, needs_logprobs=True)
        if not learnable:
            lost = f"{unscored} episodes could not be scored under {self._config.base_model}"
            return nothing, unscored, f"{lost}: usually because they are longer than its context"
        trained = model.train(learnable, tools, learning_rate=self._config.learning_rate)
        if not trained.gradient_steps:
            return trained, unscored, f"the backend had nothing to train on; see {PRINTED} in the run directory"
        return trained, unscored, ""


def _metrics(trained: StepResult, unscored: int, seconds: float) -> dict[str, float | None]:
    return {"train/left_out": float(unscored), "step_seconds": seconds, **step_metrics(trained)}
