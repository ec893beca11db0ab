"""Contains the request for a training with TRL, and the state that its parts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from sandrl.config.grpo import GrpoConfig
from sandrl.events import Emit
from sandrl.problems.prompting import Prompting
from sandrl.problems.splits import Splits
from sandrl.runs.config import Origin
from sandrl.runs.processes import Processes
from sandrl.settings import Settings
from sandrl.trainers.config import splits_of
from sandrl.trainers.engines import TRL, Engine
from sandrl.trainers.interrupts import TrainingInterrupt


@dataclass(frozen=True, slots=True)
class GrpoRequest:
    """What to train, and where to keep it.

    Attributes:
        resume: The directory of the run to resume.
        sets: Its problems, if they are loaded already.
        origin: The checkpoint of another run that it starts from.
    """

    config: GrpoConfig
    engine: Engine = TRL
    resume: Path | None = None
    sets: Splits | None = None
    origin: Origin | None = None

    def splits(self) -> Splits:
        return splits_of(self.config) if self.sets is None else self.sets


@dataclass(frozen=True, slots=True)
class Context:
    """What all parts of a training with TRL share.

    Attributes:
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
