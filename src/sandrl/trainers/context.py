"""The state that all parts of a training run share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from sandrl.config.grpo import GrpoConfig
from sandrl.events import Emit
from sandrl.problems.prompting import Prompting
from sandrl.problems.splits import Splits
from sandrl.runs.processes import Processes
from sandrl.settings import Settings
from sandrl.trainers.engines import TRL, Engine
from sandrl.trainers.interrupts import TrainingInterrupt


@dataclass(frozen=True, slots=True)
class Context:
    """A training run, before it has a directory.

    Attributes:
        config: How to train.
        settings: What the environment says.
        sets: What to train and to evaluate on.
        processes: Those that train together.
        interrupt: The user's wish to stop.
        emit: Told what happens.
        engine: What trains.
        prompting: How problems are asked.
        own_settings: The policy's own generation settings, which are not applied.
    """

    config: GrpoConfig
    settings: Settings
    sets: Splits
    processes: Processes
    interrupt: TrainingInterrupt
    emit: Emit
    engine: Engine = TRL
    prompting: Prompting = field(default_factory=Prompting)
    own_settings: Mapping[str, JsonValue] = field(default_factory=dict)
