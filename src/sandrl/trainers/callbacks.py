"""Between the trainer's callbacks and ours: the only place that knows when the trainer calls what."""

from __future__ import annotations

from typing import Any

from sandrl.extras import require
from sandrl.runs.processes import Processes
from sandrl.sandboxes import Level
from sandrl.trainers.interrupts import TrainingInterrupt
from sandrl.trainers.recording import Recorder


def training_callback(recorder: Recorder, interrupt: TrainingInterrupt, processes: Processes) -> Any:
    """A callback for transformers' trainer that writes down what happens, and stops it when the user wants to.

    Args:
        recorder: Writes down.
        interrupt: The user's wish to stop.
        processes: Those that train together; they stop at the same step.
    """
    transformers = require("transformers", extra="grpo")

    class TrainingCallback(transformers.TrainerCallback):  # type: ignore[name-defined,misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.begin_step(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            level = max(processes.gather([interrupt.level]))
            if level is not Level.NONE:
                control.should_save = True
                control.should_training_stop = True

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            # The trainer logs evaluations and its own summary through the same door.
            if logs and "loss" in logs:
                recorder.record_step(state.global_step, logs)

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            recorder.record_evaluation(state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            is_sound = all(bool(weights.isfinite().all()) for weights in model.parameters())
            recorder.record_checkpoint(state.global_step, is_sound=is_sound)

    return TrainingCallback()
