"""Connects the trainer's callbacks to those of sandrl; no other module depends on when the trainer calls them."""

from __future__ import annotations

from typing import Any

from sandrl.extras import require
from sandrl.runs.processes import Processes
from sandrl.sandboxes import Level
from sandrl.trainers.budget import StepBudget
from sandrl.trainers.evaluation import Evaluator
from sandrl.trainers.interrupts import TrainingInterrupt
from sandrl.trainers.recording import Recorder


def training_callback(
    recorder: Recorder,
    evaluator: Evaluator,
    interrupt: TrainingInterrupt,
    processes: Processes,
    budget: StepBudget,
) -> Any:
    """A callback for transformers' trainer that writes down what happens, and stops it when the user wants to.

    Args:
        recorder: Writes down.
        evaluator: Evaluates the policy when it is due.
        interrupt: The user's wish to stop.
        processes: Those that train together; they stop at the same step.
        budget: Stops it where another step would exceed the budget.
    """
    transformers = require("transformers", extra="grpo")

    def is_stopping() -> bool:
        return max(processes.gather([interrupt.level])) is not Level.NONE

    class TrainingCallback(transformers.TrainerCallback):  # type: ignore[name-defined,misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            # Before the first step, or after a checkpoint whose evaluation was not finished. Earlier, the trainer has
            # not prepared the model, and an evaluation would run another one.
            if evaluator.is_due(state.global_step):
                evaluator.evaluate(state.global_step)

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.begin_step(state.global_step)
            budget.begin_step()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            budget.end_step(is_last=state.global_step >= state.max_steps)
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
