"""The result of a training with ART: its rounds, and why it ended before its last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from sandrl.errors import InfrastructureError, SandrlError, TrainingError
from sandrl.trainers.art.groups import EQUAL_REWARDS
from sandrl.trainers.training import Stop, TrainingRun

_HINT = "easier or harder problems, more samples per problem or a higher temperature make rewards differ"


@dataclass(frozen=True, slots=True)
class Round:
    """Episodes that were run, or read, and what was trained on them.

    Attributes:
        step: How many steps the model has had after it.
        trajectories: How many episodes have a reward.
        dropped: How many were lost to infrastructure.
        reward: Their mean reward; None if there is none.
        metrics: What the training measured; empty if nothing was trained.
        failure: Why nothing was trained; empty if something was.
    """

    step: int
    trajectories: int
    dropped: int
    reward: float | None
    metrics: Mapping[str, float | None]
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtRun(TrainingRun):
    """A training with ART that has ended; `is_short` if there was nothing more to train on."""

    job_id: str
    first_step: int
    rounds: tuple[Round, ...]
    is_short: bool = False

    @property
    def failures(self) -> tuple[str, ...]:
        """Why rounds trained nothing, one reason for each."""
        return tuple(each.failure for each in self.rounds if each.failure)

    @property
    def dropped(self) -> int:
        """How many episodes were lost to infrastructure."""
        return sum(each.dropped for each in self.rounds)

    @property
    def failure(self) -> SandrlError | None:
        if self.steps >= self.of or (self.is_short and self.steps):
            return None
        last = list(takewhile(lambda each: each.failure, reversed(self.rounds)))
        if not last:
            return TrainingError("nothing was trained: all recorded episodes have been used")
        lost = sum(each.dropped for each in last)
        if lost:
            return InfrastructureError(
                f"step {self.steps + 1} could not be trained: {lost} episodes were lost; {last[0].failure}",
                hint=f"sandrl runs show {self.run_dir.name} shows the reason of each",
            )
        return TrainingError(
            f"step {self.steps + 1} had no gradient, {len(last)} times: {last[0].failure}",
            hint=_HINT if last[0].failure.startswith(EQUAL_REWARDS) else None,
        )

    @property
    def stop(self) -> Stop:
        message = f"interrupted after step {self.steps} of {self.of}; finished steps are saved in {self.run_dir}"
        return stop_of(message, self.run_dir.name)


def stop_of(message: str, run_id: str) -> Stop:
    """What an interrupted run says, with the command that resumes it."""
    hint = f"sandrl art train --resume {run_id}"
    return Stop(message, hint, f"{hint} --budget … continues with a larger budget")
