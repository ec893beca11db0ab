"""TRL's trainer with sandrl's data, reward and callbacks, and with an exact resumption from its checkpoints.

Checkpoints contain weights, optimizer and random state, but two more things decide the next step, and the libraries do
not restore them. TRL's sampler draws one permutation per epoch from a generator that a new process starts again, so
this module gives every epoch the permutation of its number. If completions are generated for several steps at once, a
checkpoint can fall between these steps, so the checkpoint also contains the remaining completions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any

from sandrl.errors import ServiceError, UsageError
from sandrl.models import libraries
from sandrl.models.generation import chosen_settings, keep_neutral
from sandrl.models.places import ModelPlace
from sandrl.problems import Problem
from sandrl.problems.schedule import Schedule
from sandrl.rollouts.environments import Environment
from sandrl.sandboxes import Level
from sandrl.trainers.checkpoints import load_part
from sandrl.trainers.episodes import episode_trainer
from sandrl.trainers.evaluation import Evaluator, evaluation_datasets
from sandrl.trainers.overlap import early_trainer, late_trainer
from sandrl.trainers.plan import Context
from sandrl.trainers.recording import Recorder
from sandrl.trainers.rewarding import (
    EVALUATION_COLUMN,
    GREEDY_COLUMN,
    PADDING_COLUMN,
    REWARD,
    TrainingReward,
    WithoutPadding,
)
from sandrl.trainers.sampling import Groups, grouping_trainer
from sandrl.trainers.training import Training


def make_trainer(
    context: Context,
    arguments: Any,
    place: ModelPlace,
    reward: TrainingReward,
    make_environment: Callable[[], Environment] | None,
    schedule: Schedule | None = None,
) -> Any:
    """TRL's trainer for a policy, with tools if these are requested, and with a schedule unless TRL's order is used.

    Raises:
        InputError: If the policy is not where it was found.
        ServiceError: If a server of vLLM that answered before does not answer now.
        UsageError: If TRL refuses the configuration.
    """
    config, sets = context.config, context.sets
    assert context.description is not None, "a policy is described before it is loaded"
    trl, transformers = libraries.load("trl"), libraries.load("transformers")
    evaluation = None
    if sets.evaluation:
        asked = _rows(sets.evaluation, context, is_evaluation=True)
        evaluation = evaluation_datasets(context, asked, arguments.per_device_eval_batch_size)
    rows = _rows(sets.train, context)
    groups = Groups(schedule, {row["task_id"]: row for row in rows}, context.processes, config.dynamic_sampling)
    try:
        with place.kept_offline():
            policy = context.loader.policy(context.description, config)
            kind = early_trainer(resumable_trainer(trl.GRPOTrainer), reward, rows, config.overlap)
            kind = late_trainer(grouping_trainer(kind, groups), reward, schedule, config.overlap)
            trainer = (kind if make_environment is None else episode_trainer(kind))(
                model=policy.model,
                processing_class=policy.tokenizer,
                reward_funcs=WithoutPadding(reward, REWARD),
                args=arguments,
                train_dataset=libraries.load("datasets").Dataset.from_list(rows),
                eval_dataset=evaluation,
                peft_config=policy.peft_config,
                environment_factory=make_environment,
            )
    except ConnectionError as error:
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
    tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
    ends = (getattr(tokenizer, name, None) for name in ("eos_token_id", "pad_token_id"))
    return frozenset(end for end in ends if isinstance(end, int))


def _rows(problems: Mapping[str, Problem], context: Context, *, is_evaluation: bool = False) -> list[dict[str, Any]]:
    return [
        {
            "prompt": context.question(problem),
            "task_id": problem.task_id,
            EVALUATION_COLUMN: is_evaluation,
            GREEDY_COLUMN: False,
            PADDING_COLUMN: False,
        }
        for problem in problems.values()
    ]


def training_callback(context: Context, training: Training, recorder: Recorder, evaluator: Evaluator) -> Any:
    """A callback of transformers' trainer that writes down what happens, and stops all processes at the same step.

    No other module depends on when the trainer calls it.
    """

    def is_stopping() -> bool:
        return max(context.processes.gather([context.interrupt.level])) is not Level.NONE

    class TrainingCallback(libraries.load("transformers").TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            # Before the first step, or after a checkpoint whose evaluation was not finished. Earlier, the trainer has
            # not prepared the model, and an evaluation would run another one.
            if evaluator.is_due(state.global_step):
                evaluator.evaluate(state.global_step)

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            training.begin_step(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            training.end_step(is_last=state.global_step >= state.max_steps)
            if is_stopping():
                control.should_save = True
                control.should_training_stop = True
            elif evaluator.is_due(state.global_step):
                control.should_save = True

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            # The trainer logs evaluations and its own summary through the same door.
            if logs and "loss" in logs:
                recorder.record_step(state.global_step, logs)

        def on_save(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            is_sound = all(bool(weights.isfinite().all()) for weights in model.parameters())
            recorder.record_checkpoint(state.global_step, is_sound=is_sound)
            # After the last step the trainer ends first.
            if evaluator.is_due(state.global_step) and not control.should_training_stop:
                evaluator.evaluate(state.global_step)
                control.should_training_stop = is_stopping()

    return TrainingCallback()


class EpochOrder:
    """A sampler whose order depends on the number of the epoch alone.

    `make` returns a sampler whose n-th iteration has the order of the n-th epoch; `epoch`, the epoch that begins.
    """

    def __init__(self, make: Callable[[], Any], epoch: Callable[[], int]) -> None:
        self._make = make
        self._epoch = epoch
        self._length = len(make())

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return self.of(self._epoch())

    def of(self, epoch: int) -> Iterator[int]:
        """The order of the epoch with this number."""
        sampler = self._make()
        for _ in range(epoch):
            # An iteration draws its permutation when it is asked for the first index.
            next(iter(sampler), None)
        return iter(sampler)


def resumable_trainer(trainer: Any) -> Any:
    """The class of a trainer whose resumed runs equal uninterrupted ones, from TRL's `GRPOTrainer`."""

    class ResumableTrainer(trainer):  # type: ignore[misc]
        def _get_train_sampler(self, dataset: Sized | None = None) -> EpochOrder:
            make = super()._get_train_sampler
            return EpochOrder(lambda: make(dataset), lambda: int(self.state.epoch or 0))

        def _save_rng_state(self, output_dir: str) -> None:
            super()._save_rng_state(output_dir)
            if self._step % (self.args.steps_per_generation * self.num_iterations):
                kept = {"step": self._step, "processes": self.args.world_size, "inputs": self._buffered_inputs}
                libraries.load("torch").save(kept, self._generated(output_dir))

        def _load_rng_state(self, checkpoint: str | None) -> None:
            super()._load_rng_state(checkpoint)
            if checkpoint is None or not self._generated(checkpoint).is_file():
                return
            kept = load_part(self._generated(checkpoint), self.args.device)
            self._step = kept["step"]
            if kept["processes"] == self.args.world_size:
                self._buffered_inputs = kept["inputs"]

        def _generated(self, checkpoint: str) -> Path:
            # The completions that later steps of this process will use.
            return Path(checkpoint) / f"generated_{self.args.process_index}.pt"

    return ResumableTrainer
