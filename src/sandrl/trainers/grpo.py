"""Runs GRPO with TRL's trainer, from the configuration to the last evaluation.

This module contains no GRPO code. TRL's `GRPOTrainer` trains; this module supplies the policy, the prompts and the
reward function, and manages sandboxes, the run directory, interruption and resumption. Configuration errors are
reported before a policy, a sandbox or a directory is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import (
    BudgetError,
    CleanupError,
    InputError,
    InterruptedRunError,
    ServiceError,
    TrainingError,
    UsageError,
    raise_for_end,
)
from sandrl.events import Emit, ModelSettingsFound, RewardCallFinished, TrainingStarted, Warned, all_of, ignore
from sandrl.models import libraries
from sandrl.models.generation import chosen_settings, keep_neutral, sampling_facts, settings_of
from sandrl.models.places import ModelPlace
from sandrl.problems import ANSWER_INSTRUCTION, SUBMIT_INSTRUCTION, Problem
from sandrl.problems.prompting import Prompting
from sandrl.problems.reading import reading_of
from sandrl.problems.splits import Splits
from sandrl.rewards import ScoreOptions
from sandrl.rewards.calibration import packages_of
from sandrl.rewards.function import FunctionOptions, step_opinions
from sandrl.rewards.judge import judge_version
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.rewards.weak_checks import warn_of_weak_checks
from sandrl.rollouts.workbench import Workshop
from sandrl.runs import EvaluationRow, MetricsRecorder
from sandrl.runs.evaluations import BestCheckpoint
from sandrl.runs.flags import Flag
from sandrl.runs.held import SandboxTime
from sandrl.runs.lineage import ORIGIN, Origin
from sandrl.runs.processes import Processes
from sandrl.runs.resumption import PROBLEMS_DIGEST, check_unchanged, digest_of_all
from sandrl.runs.session import RunPlan, RunSession, open_run
from sandrl.sandboxes import Connection, Job, SandboxRequest, new_job_id
from sandrl.sandboxes.spending import Allowance
from sandrl.settings import Settings
from sandrl.tiny import tiny_policy
from sandrl.trainers.adapters import base_of, find_policy
from sandrl.trainers.arguments import trl_arguments
from sandrl.trainers.budget import StepBudget
from sandrl.trainers.callbacks import training_callback
from sandrl.trainers.checkpoints import Checkpoint, last_checkpoint
from sandrl.trainers.config import splits_of
from sandrl.trainers.context import Context
from sandrl.trainers.directory import checkpoint_directory
from sandrl.trainers.engines import TRL, Engine
from sandrl.trainers.environments import environment_factory, episode_trainer
from sandrl.trainers.evaluation import EVALUATION_COLUMN, GREEDY_COLUMN, Evaluator, evaluation_datasets
from sandrl.trainers.interrupts import TrainingInterrupt
from sandrl.trainers.library_output import FILE, PrintedFile
from sandrl.trainers.order import resumable_trainer
from sandrl.trainers.padding import PADDING_COLUMN, WithoutPadding
from sandrl.trainers.recording import Recorder
from sandrl.trainers.rewarding import TrainingReward


@dataclass(frozen=True, slots=True)
class GrpoRequest:
    """What to train, and where to keep it.

    Attributes:
        config: How to train.
        engine: What trains.
        resume: The directory of the run to go on with; `config` is the one it was begun with.
        sets: Its problems, where they are loaded already.
        origin: The checkpoint of another run that it begins with, if it does.
    """

    config: GrpoConfig
    engine: Engine = TRL
    resume: Path | None = None
    sets: Splits | None = None
    origin: Origin | None = None

    def splits(self) -> Splits:
        """Its problems.

        Raises:
            InputError: If they cannot be used.
        """
        return splits_of(self.config) if self.sets is None else self.sets


@dataclass(frozen=True, slots=True)
class GrpoRun:
    """A training run that has ended, by itself or because the user wanted it to.

    Attributes:
        command: The command that goes on with it.
        run_dir: Where it is written down.
        steps: How many steps the policy has had.
        of: How many it was to have.
        checkpoint: The last whole checkpoint.
        best: The best checkpoint by its evaluation; None where none was evaluated.
        evaluations: What was measured of the policy, by the number of steps it had.
        eval_problems: On how many problems that was measured.
        is_held_out: Whether these were not trained on.
        optimizations: What the engine had changed about the trainer and its model.
        is_first: Whether this process speaks for all that trained together.
        flags: The flags that stand at its end.
        signal_number: The signal that asked to stop; 0 if none did.
        cleanup_error: Set if sandboxes were left behind.
        held: The sandbox time that the run has used, and its cost.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    command: str
    run_dir: Path
    steps: int
    of: int
    checkpoint: Checkpoint | None
    best: BestCheckpoint | None
    evaluations: Mapping[int, EvaluationRow]
    eval_problems: int
    is_held_out: bool
    optimizations: tuple[str, ...] = ()
    is_first: bool = True
    flags: tuple[Flag, ...] = ()
    signal_number: int = 0
    cleanup_error: CleanupError | None = None
    held: SandboxTime = field(default_factory=SandboxTime)
    exhausted: str = ""

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
        """
        message, hint = _interruption(self.command, self.run_dir, self.of, self.checkpoint)
        raise_for_end(
            message,
            signal_number=self.signal_number,
            cleanup_error=self.cleanup_error,
            hint=hint,
            exhausted=self.exhausted if self.steps < self.of else "",
            budget_hint=f"{hint} continues with a larger `budget`",
        )


def run_grpo(
    request: GrpoRequest, settings: Settings, *, emit: Emit = ignore, interrupt: TrainingInterrupt | None = None
) -> GrpoRun:
    """Trains a policy on sandbox rewards and leaves a run directory.

    Args:
        request: What to train, and where to keep it.
        settings: What the environment says.
        emit: Told what happens; in a distributed run only the first process tells.
        interrupt: The user's wish to stop.

    Raises:
        UsageError: If the configuration cannot work.
        TrainingError: If the loss is no number, or nothing was trained.
        BudgetError: If the budget was used up in the middle of a step.
        InterruptedRunError: If the user did not want the step in hand to be finished.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    interrupt = interrupt or TrainingInterrupt()
    config, engine = request.config, request.engine
    ScoreOptions.of(config)
    allowance = SandboxRequest.of(config).allowance(settings, run=request.resume)
    engine.check_installed()
    sets = request.splits()
    engine.prepare(settings, emit=emit if settings.rank == 0 else ignore)
    with libraries.kept_quiet():
        arguments = trl_arguments(config, sets, world_size=settings.world_size)
        processes = Processes(arguments.process_index, arguments.world_size)
        told = emit if processes.is_first else ignore
        prompting = Prompting.of(config, sets.train, reading_of(config))
        context = Context(config, settings, sets, processes, interrupt, told, engine, prompting)
        digest = digest_of_all(chain(sets.content(), prompting.content()))
        if request.resume is not None:
            check_unchanged(request.resume, digest, f"problems: {config.problems!r}")
        if sets.remark is not None:
            context.emit(Warned(sets.remark))
        place = _policy(context)
        context = replace(context, own_settings=settings_of(base_of(place)))
        if context.own_settings:
            context.emit(ModelSettingsFound(config.model, context.own_settings, are_used=False))
        connection = SandboxRequest.of(config).connect(
            settings, needed=packages_of([*sets.train.values(), *sets.evaluation.values()]), emit=context.emit
        )
        plan = RunPlan(
            command=engine.command,
            job_id=new_job_id(),
            options={
                **config.document(),
                PROBLEMS_DIGEST: digest,
                **connection.facts(),
                **allowance.facts,
                **sampling_facts(context.own_settings, chosen=chosen_settings(config.trl_fields)),
                **({} if request.origin is None else {ORIGIN: request.origin.model_dump(mode="json")}),
            },
            changes={"steps": config.steps, "budget": config.budget, **allowance.facts},
            versions={"judge": judge_version(), **engine.versions()},
            runs_dir=config.runs_dir,
            name=config.run_name,
            log_level=config.log_level,
            resume=request.resume,
            report_to=config.report_to,
            project=config.project,
            is_training=True,
        )
        with (
            interrupt.answered(context.emit),
            open_run(plan, settings, interrupt=interrupt, processes=processes, emit=context.emit) as session,
        ):
            trained = _train(context, arguments, place, connection, session, allowance.shared(processes.count))
            session.is_complete = interrupt.is_exhausted and trained.steps == trained.of
    return replace(
        trained,
        signal_number=interrupt.signal_number,
        cleanup_error=session.cleanup_error(),
        held=session.held(),
        exhausted=session.exhausted,
    )


def _policy(context: Context) -> ModelPlace:
    """Where the policy is loaded from; the tiny one is made first, where it is not there yet."""
    config = context.config
    if not config.is_tiny:
        return find_policy(config.model)
    # A model this small loses time to more threads, and the sandboxes want the other processors.
    libraries.load("torch").set_num_threads(1)
    path = tiny_policy(context.settings.cache_dir, seed=config.seed, emit=context.emit)
    return ModelPlace(str(path), is_directory=True, is_offline=True)


def _train(
    context: Context,
    arguments: Any,
    place: ModelPlace,
    connection: Connection,
    session: RunSession,
    allowance: Allowance,
) -> GrpoRun:
    config, processes, writer = context.config, context.processes, session.writer
    checkpoints = checkpoint_directory(config, writer.path)
    arguments.output_dir = str(checkpoints)
    begin = last_checkpoint(checkpoints)
    if begin is not None and session.attempt == 1:
        message, hint = "contains the checkpoints of another run", "choose another output_dir"
        raise InputError(message, path=checkpoints, hint=hint, fields=("output_dir",))
    counter = MetricsRecorder(writer, attempt=session.attempt, processes=processes, held=session.held_before)
    told = replace(context, emit=all_of(counter, session.log, _without_parts(context)))
    tags = (context.engine.workflow_tag, f"model:{config.model}", *session.tags)
    job = session.own(
        SandboxRequest.of(config, *tags).job(
            connection,
            command=context.engine.command,
            max_lifetime_seconds=lifetime_seconds(context.sets.all, ScoreOptions.of(config).limits),
            writer=writer,
            allowance=allowance,
            interrupt=context.interrupt,
            emit=told.emit,
        )
    )
    warn_of_weak_checks(context.sets.all.values(), context.settings.state_dir, told.emit)
    reward = _reward(told, job, session)
    recorder = Recorder(context, counter, session, checkpoints, begin=begin)
    with redirect_stdout(PrintedFile(writer.path / FILE)):
        workshop = Workshop(job, timeout_seconds=ScoreOptions.of(config).limits.timeout_seconds, emit=told.emit)
        trainer = _trainer(context, arguments, place, reward, workshop)
        evaluator = Evaluator(trainer, context, recorder)
        trainer.add_callback(training_callback(recorder, evaluator, context.interrupt, processes, StepBudget(job)))
        context.emit(
            TrainingStarted(
                writer.run_id,
                model=config.model,
                problems=len(context.sets.train),
                first_step=0 if begin is None else begin.step,
                steps=config.steps,
                completions=config.batch_size,
                processes=processes.count,
            )
        )
        try:
            with context.interrupt.tearing(), place.kept_offline():
                _run_trainer(trainer, context, recorder, evaluator, begin)
        except InterruptedRunError as error:
            message, hint = _interruption(context.engine.command, writer.path, config.steps, recorder.checkpoint)
            if context.interrupt.is_exhausted:
                message, hint = message.removeprefix("interrupted"), f"{hint} continues with a larger `budget`"
                raise BudgetError(f"{job.exhausted}{message}", hint=hint, fields=("budget",)) from error
            raise InterruptedRunError(message, signal_number=error.signal_number, hint=hint) from error
        except libraries.load("torch").OutOfMemoryError as error:
            hint = "use a smaller batch_size, or `set` gradient_accumulation_steps=N with a larger N"
            message = "the GPU does not have enough memory for this"
            raise TrainingError(message, hint=hint, fields=("batch_size", "set")) from error
        except RuntimeError as error:
            # What torch says of weights that overflow, when it is to sample from them.
            if "probability tensor contains" not in str(error):
                raise
            step = recorder.steps_done
            raise recorder.collapsed(
                f"step {step} cannot be sampled: the policy's probabilities are not finite"
            ) from error
    recorder.check_that_something_was_trained()
    return GrpoRun(
        context.engine.command,
        writer.path,
        steps=recorder.steps_done,
        of=config.steps,
        checkpoint=recorder.checkpoint,
        best=recorder.best,
        evaluations=recorder.evaluations,
        eval_problems=len(context.sets.evaluation),
        is_held_out=context.sets.is_held_out,
        optimizations=context.engine.optimizations(trainer),
        is_first=processes.is_first,
        flags=recorder.health.flags,
    )


def _without_parts(context: Context) -> Emit:
    """What a user is told of what happens in this process: calls for rewards only when their parts are together."""
    if context.processes.count == 1:
        return context.emit
    return lambda event: None if isinstance(event, RewardCallFinished) else context.emit(event)


def _reward(context: Context, job: Job, session: RunSession) -> TrainingReward:
    config = context.config
    suggested = job.connection.concurrency(None)
    if suggested is not None:
        suggested = max(suggested // context.processes.count, 1)
    return TrainingReward(
        context,
        FunctionOptions(
            replace(
                ScoreOptions.of(config, config.concurrency or suggested),
                second_opinion=step_opinions(config.second_opinion),
            ),
            require_isolated=config.require_isolated,
            warm_sandboxes=config.warm_sandboxes,
        ),
        job=job,
        session=session,
    )


def _trainer(context: Context, arguments: Any, place: ModelPlace, reward: TrainingReward, workshop: Workshop) -> Any:
    """TRL's trainer, with our data, our reward and, where they are asked for, our tools."""
    config, sets = context.config, context.sets
    trl, transformers = libraries.load("trl"), libraries.load("transformers")
    try:
        with place.kept_offline():
            policy = context.engine.policy(place.name, config)
            has_tools = config.rollout == "tools"
            resumable = resumable_trainer(trl.GRPOTrainer)
            trainer = (episode_trainer(resumable) if has_tools else resumable)(
                model=policy.model,
                processing_class=policy.tokenizer,
                reward_funcs=WithoutPadding(reward, reward.__name__),
                args=arguments,
                train_dataset=_dataset(_rows(sets.train, context)),
                eval_dataset=(
                    evaluation_datasets(
                        context,
                        _rows(sets.evaluation, context, is_evaluation=True),
                        arguments.per_device_eval_batch_size,
                    )
                    if sets.evaluation
                    else None
                ),
                peft_config=policy.peft_config,
                environment_factory=(
                    environment_factory(workshop, config.tools, config.max_tool_calls) if has_tools else None
                ),
            )
    except ConnectionError as error:
        # A server of vLLM that answered before and does not now.
        raise ServiceError(libraries.first_line(error)) from error
    except RuntimeError as error:
        if config.vllm is None:
            raise
        raise UsageError(f"TRL cannot use vLLM: {libraries.first_line(error)}") from error
    except OSError as error:
        # What transformers raises for a model that is not where it looks.
        raise place.explain(error) from error
    except (ValueError, ImportError) as error:
        raise UsageError(f"TRL refuses this configuration: {libraries.first_line(error)}") from error
    reward.ends = _ends(trainer)
    keep_neutral(trainer, context.own_settings, chosen_settings(config.trl_fields))
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def _ends(trainer: Any) -> frozenset[int]:
    """The tokens that end a completion of TRL's trainer."""
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    ends = (getattr(tokenizer, name, None) for name in ("eos_token_id", "pad_token_id"))
    return frozenset(end for end in ends if isinstance(end, int))


def _rows(problems: Mapping[str, Problem], context: Context, *, is_evaluation: bool = False) -> list[dict[str, Any]]:
    config = context.config
    instruction = SUBMIT_INSTRUCTION if config.rollout == "tools" else ANSWER_INSTRUCTION
    return [
        {
            "prompt": context.prompting.messages(problem, instruction=instruction, extraction=config.extract),
            "task_id": problem.task_id,
            EVALUATION_COLUMN: is_evaluation,
            GREEDY_COLUMN: False,
            PADDING_COLUMN: False,
        }
        for problem in problems.values()
    ]


def _dataset(rows: list[dict[str, Any]]) -> Any:
    return libraries.load("datasets").Dataset.from_list(rows)


def _run_trainer(
    trainer: Any, context: Context, recorder: Recorder, evaluator: Evaluator, begin: Checkpoint | None
) -> None:
    """Trains, with the evaluations before and between steps, and evaluates again at the end."""
    steps = context.config.steps
    if begin is None or begin.step < steps:
        trainer.train(resume_from_checkpoint=None if begin is None else str(begin.path))
    else:
        # Killed after its last step. The trainer has no public way to load a checkpoint without training.
        trainer._load_from_checkpoint(str(begin.path))
    if recorder.steps_done == (0 if begin is None else begin.step) < steps and not context.interrupt.level:
        message = "nothing was trained: the trainer ended without a step"
        raise TrainingError(message, hint="see printed.log in the run directory")
    if recorder.steps_done == steps and evaluator.is_due(steps):
        trainer.state.global_step = steps
        evaluator.evaluate(steps)


def _interruption(command: str, run_dir: Path, of: int, checkpoint: Checkpoint | None) -> tuple[str, str]:
    """What an interrupted run says, and how to go on with it."""
    if checkpoint is None:
        message = "interrupted before the first checkpoint"
    else:
        message = f"interrupted; the policy after {checkpoint.step} of {of} steps is saved in {checkpoint.path}"
    return message, f"sandrl {command} --resume {run_dir.name}"
