"""Runs GRPO with TRL's trainer, from the configuration to the last evaluation.

This module contains no GRPO code. TRL's `GRPOTrainer` trains; this module supplies the policy, the prompts and the
reward function. Configuration errors are reported before a policy, a sandbox or a directory is created.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from sandrl.errors import InputError, TrainingError, UsageError
from sandrl.events import Emit, ModelSettingsFound, TrainingStarted, Warned, ignore
from sandrl.judge.judge import Judge
from sandrl.models import libraries
from sandrl.models.generation import chosen_settings, sampling_facts
from sandrl.models.places import ModelPlace, find_model
from sandrl.problems.loading import reading_of
from sandrl.problems.mixture import sources_of
from sandrl.problems.prompting import Prompting
from sandrl.rewards import ScoreOptions, VerdictCache
from sandrl.rewards.function import FunctionOptions, step_opinions
from sandrl.rollouts.environments import Environment
from sandrl.rollouts.sandbox import EpisodeSandbox, JobSandboxes
from sandrl.rollouts.shared_job import SharedJob
from sandrl.runs import EvaluationRow
from sandrl.runs.config import ORIGIN
from sandrl.runs.overview import BestCheckpoint
from sandrl.runs.processes import Processes
from sandrl.runs.resumption import check_unchanged, digest_of_all
from sandrl.sandboxes import Job, SandboxRequest
from sandrl.settings import Settings
from sandrl.tiny import tiny_policy
from sandrl.trainers.arguments import trl_arguments
from sandrl.trainers.batches import Division
from sandrl.trainers.checkpoints import Checkpoint, checkpoint_directory, last_checkpoint
from sandrl.trainers.episodes import TaskEpisodes, environment_factory
from sandrl.trainers.evaluation import Evaluator
from sandrl.trainers.interrupts import TrainingInterrupt
from sandrl.trainers.plan import Context, GrpoRequest
from sandrl.trainers.recording import Recorder
from sandrl.trainers.rewarding import TrainingReward
from sandrl.trainers.trainer import make_trainer, training_callback
from sandrl.trainers.training import PRINTED, Setup, Stop, Training, TrainingRun, run_training
from sandrl.trials.capacity import capacity_of
from sandrl.trials.trial import needs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpoRun(TrainingRun):
    """A training with TRL that has ended.

    Attributes:
        best: The best checkpoint by its evaluation; None if none was evaluated.
        evaluations: What was measured of the policy, by the number of steps it had.
        is_held_out: Whether the problems of the evaluations were not trained on.
        optimizations: What the loader had changed about the trainer and its model.
        is_first: Whether this process speaks for all that trained together.
    """

    command: str
    checkpoint: Checkpoint | None
    best: BestCheckpoint | None
    evaluations: Mapping[int, EvaluationRow]
    eval_problems: int
    is_held_out: bool
    optimizations: tuple[str, ...] = ()
    is_first: bool = True

    @property
    def stop(self) -> Stop:
        return stop_of(self.command, self.run_dir, self.of, self.checkpoint)


def stop_of(command: str, run_dir: Path, of: int, checkpoint: Checkpoint | None) -> Stop:
    """What an interrupted run says, by its last checkpoint."""
    message = "interrupted before the first checkpoint"
    if checkpoint is not None:
        message = f"interrupted; the policy after {checkpoint.step} of {of} steps is saved in {checkpoint.path}"
    hint = f"sandrl {command} --resume {run_dir.name}"
    return Stop(message, hint, f"{hint} continues with a larger `budget`")


def run_grpo(
    request: GrpoRequest, settings: Settings, *, emit: Emit = ignore, interrupt: TrainingInterrupt | None = None
) -> GrpoRun:
    """Trains a policy on sandbox rewards and leaves a run directory; of several processes, only the first one emits.

    Raises:
        UsageError: If the configuration cannot work.
        TrainingError: If the loss is no number, or nothing was trained.
        BudgetError: If the budget was used up in the middle of a step.
        InterruptedRunError: If the user did not want the current step to be finished.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    interrupt = interrupt or TrainingInterrupt()
    config, loader = request.config, request.loader
    ScoreOptions.of(config)
    allowance = SandboxRequest.of(config).allowance(settings, run=request.resume)
    loader.check_installed()
    sets = request.splits(settings)
    loader.prepare(settings, emit=emit if settings.rank == 0 else ignore)
    with libraries.kept_quiet():
        arguments = trl_arguments(config, sets, world_size=settings.world_size)
        processes = Processes(arguments.process_index, arguments.world_size)
        prompting = Prompting.of(config, sets.train, reading_of(config))
        digest = digest_of_all(chain(sets.content(), prompting.content()))
        if request.resume is not None:
            check_unchanged(request.resume, digest, f"problems: {config.problems!r}")
        told = emit if processes.is_first else ignore
        context = Context(config, settings, sets, processes, interrupt, told, loader, prompting)
        if sets.remark is not None:
            told(Warned(sets.remark))
        if sets.quality is not None:
            sets.quality.tell(next(iter(sources_of(config.problems))), told)
        place = _policy(context)
        context = context.described(place)
        assert context.description is not None, "it was just described"
        if (remark := context.description.remark(config.chat_template)) is not None:
            told(Warned(remark))
        config = config.model_copy(update={"chat_template": context.description.template.name})
        context = replace(context, config=config)
        own = context.own_settings
        if own:
            told(ModelSettingsFound(config.model, own, are_used=False))
        setup = Setup(
            command=loader.command,
            config=config,
            problems=sets.all,
            digest=digest,
            tags=(loader.workflow_tag, f"model:{config.model}"),
            versions=loader.versions(),
            facts={
                **sampling_facts(own, chosen=chosen_settings(config.trl_fields)),
                **({} if request.origin is None else {ORIGIN: request.origin.model_dump(mode="json")}),
            },
            resume=request.resume,
            quality=sets.quality,
            profile=sets.profile,
        )
        return run_training(
            TrlEngine(context, arguments, place),
            setup,
            settings,
            allowance,
            interrupt=interrupt,
            emit=told,
            processes=processes,
            answering=interrupt.answered(told),
        )


def _policy(context: Context) -> ModelPlace:
    config = context.config
    if not config.is_tiny:
        return find_model(config.model)
    # A model this small loses time to more threads, and the sandboxes want the other processors.
    libraries.load("torch").set_num_threads(1)
    path = tiny_policy(context.settings.cache_dir, seed=config.seed, emit=context.emit)
    return ModelPlace(str(path), is_directory=True, is_offline=True)


class TrlEngine:
    """Trains a policy, which is found at `place`, with TRL's trainer."""

    def __init__(self, context: Context, arguments: Any, place: ModelPlace) -> None:
        self._context = context
        self._arguments = arguments
        self._place = place
        self._trainer: Any = None
        self._recorder: Recorder | None = None

    def train(self, training: Training) -> None:
        context, config, session = self._context, self._context.config, training.session
        checkpoints = checkpoint_directory(config, session.writer.path)
        self._arguments.output_dir = str(checkpoints)
        begin = last_checkpoint(checkpoints)
        if begin is not None and session.attempt == 1:
            message, hint = "contains the checkpoints of another run", "choose another output_dir"
            raise InputError(message, path=checkpoints, hint=hint, fields=("output_dir",))
        training.count_from(0 if begin is None else begin.step)
        job = training.own_job()
        schedule = context.schedule(always=config.dynamic_sampling > 0)
        recorder = self._recorder = Recorder(context, training, checkpoints, begin=begin, schedule=schedule)
        reward = TrainingReward(replace(context, emit=training.tell), _scoring(context, job), job=job, session=session)
        # Before the job ends, and before it gives up its sandboxes: rewards that were begun are its threads' work.
        session.stack.callback(reward.abandon)
        training.before_rest = reward.abandon
        make_environment = None
        if config.rollout == "tools":
            _check_memory(context, self._arguments, job)
            make_environment = _environments(context, job, training)
        trainer = self._trainer = make_trainer(
            context, self._arguments, self._place, reward, make_environment, schedule
        )
        evaluator = Evaluator(trainer, context, training, recorder)
        trainer.add_callback(training_callback(context, training, recorder, evaluator))
        training.emit(
            TrainingStarted(
                session.writer.run_id,
                model=config.model,
                problems=len(context.sets.train),
                first_step=recorder.steps_done,
                steps=config.steps,
                completions=config.batch_size,
                processes=context.processes.count,
            )
        )
        try:
            with context.interrupt.tearing(), self._place.kept_offline():
                _run_trainer(trainer, context, recorder, evaluator)
        except libraries.load("torch").OutOfMemoryError as error:
            hint = "use a smaller batch_size, or `set` gradient_accumulation_steps=N with a larger N"
            message = "the GPU does not have enough memory for this"
            raise TrainingError(message, hint=hint, fields=("batch_size", "set")) from error
        except RuntimeError as error:
            # What torch says of weights that overflow, when it is to sample from them.
            if "probability tensor contains" not in str(error):
                raise
            message = f"step {recorder.steps_done} cannot be sampled: the policy's probabilities are not finite"
            raise recorder.collapsed(message) from error
        if recorder.steps_done == config.steps:
            recorder.check_that_rewards_trained()

    def stop(self, training: Training) -> Stop:
        context, checkpoint = self._context, None if self._recorder is None else self._recorder.checkpoint
        return stop_of(context.loader.command, training.session.writer.path, context.config.steps, checkpoint)

    def result(self, training: Training) -> GrpoRun:
        context, recorder = self._context, self._recorder
        assert recorder is not None, "it has trained"
        return GrpoRun(
            command=context.loader.command,
            run_dir=training.session.writer.path,
            steps=recorder.steps_done,
            of=context.config.steps,
            checkpoint=recorder.checkpoint,
            best=recorder.best,
            evaluations=recorder.evaluations,
            eval_problems=len(context.sets.evaluation),
            is_held_out=context.sets.is_held_out,
            optimizations=context.loader.optimizations(self._trainer),
            is_first=context.processes.is_first,
            flags=training.health.flags,
        )


def _check_memory(context: Context, arguments: Any, job: Job) -> None:
    # The machines of all episodes that are generated together are there at once: TRL goes from one to the next.
    division = Division.of(context.config, context.processes.count)
    generated = context.config.batch_size * division.passes_per_generation // division.parts
    needs = [
        needs_of(each.task, context.config.verifier)[0] for each in context.sets.all.values() if each.task is not None
    ]
    needed = max(needs, default=0) * max(generated, arguments.per_device_eval_batch_size)
    room = capacity_of(job.connection).memory_bytes
    if needed * context.processes.count > room:
        raise UsageError(
            f"batch_size: the tasks of the episodes that are generated together may use {needed / 2**30:.1f} GiB of"
            f" memory in each process, and there are {room / 2**30:.1f} GiB for all",
            hint="use a smaller batch_size, or tasks that ask for less memory",
            fields=("batch_size",),
        )


def _environments(context: Context, job: Job, training: Training) -> Callable[[], Environment]:
    config, options = context.config, ScoreOptions.of(context.config)
    if not context.plays_tasks:
        sandboxes, problems = JobSandboxes(job, emit=training.tell), context.sets.all

        def sandbox(task_id: str) -> EpisodeSandbox:
            image = problems[task_id].image if task_id in problems else None
            return EpisodeSandbox(sandboxes, task_id, image, timeout_seconds=options.limits.timeout_seconds)

        return environment_factory(sandbox, config.tools, context.most_calls)
    judge = Judge.on(job.connection, require_isolated=config.require_isolated)
    place = SharedJob(job, judge, options, VerdictCache(config.cache), emit=training.tell)
    # Before the job ends: the machines are its own.
    training.session.stack.enter_context(place)
    episodes = TaskEpisodes(place, context.sets.all, context.most_calls)
    training.session.stack.callback(episodes.close)
    return episodes.make_environment


def _scoring(context: Context, job: Job) -> FunctionOptions:
    config = context.config
    concurrency = job.connection.concurrency(config.concurrency, processes=context.processes.count)
    options = ScoreOptions.of(config, concurrency)
    return FunctionOptions(
        replace(options, second_opinion=step_opinions(config.second_opinion)),
        require_isolated=config.require_isolated,
        warm_sandboxes=config.warm_sandboxes,
    )


def _run_trainer(trainer: Any, context: Context, recorder: Recorder, evaluator: Evaluator) -> None:
    # Trains, with the evaluations before and between steps, and evaluates again at the end.
    steps, begin = context.config.steps, recorder.checkpoint
    first_step = recorder.steps_done
    if first_step < steps:
        trainer.train(resume_from_checkpoint=None if begin is None else str(begin.path))
    elif begin is not None:
        # Killed after its last step. The trainer has no public way to load a checkpoint without training.
        trainer._load_from_checkpoint(str(begin.path))
    if recorder.steps_done == first_step < steps and not context.interrupt.level:
        message = "nothing was trained: the trainer ended without a step"
        raise TrainingError(message, hint=f"see {PRINTED} in the run directory")
    if recorder.steps_done == steps and evaluator.is_due(steps):
        trainer.state.global_step = steps
        evaluator.evaluate(steps)
