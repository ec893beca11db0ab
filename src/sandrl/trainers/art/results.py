"""The request for a training with ART, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from sandrl.config.art import ArtTrainConfig
from sandrl.errors import CleanupError, InfrastructureError, SandrlError, TrainingError, raise_for_end
from sandrl.runs.flags import Flag
from sandrl.runs.held import SandboxTime
from sandrl.trainers.art.groups import EQUAL_REWARDS

_HINT = "easier or harder problems, more samples per problem or a higher temperature make rewards differ"


COMMAND = "art-train"


@dataclass(frozen=True, slots=True)
class ArtRequest:
    """What to train.

    Attributes:
        config: How to train.
        resume: The directory of the run to go on with.
        why: Why it is trained by that backend, in a few words.
    """

    config: ArtTrainConfig
    resume: Path | None = None
    why: str = "requested"

    @property
    def recorded(self) -> Path | None:
        """The directory of the run whose episodes are trained on."""
        return None if self.config.trajectories is None else Path(self.config.trajectories)


@dataclass(frozen=True, slots=True)
class Round:
    """Episodes that were played, or read, and what was trained on them.

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


@dataclass(frozen=True, slots=True)
class ArtRun:
    """A training that is over.

    Attributes:
        job_id: The job.
        run_dir: Where it is written down.
        first_step: How many steps the model had had before.
        step: How many it has had.
        of: How many it was to have.
        rounds: What was played and trained, in order.
        is_short: Whether it ended because there was nothing more to train on.
        flags: The flags that stand at its end.
        signal_number: The signal that asked to stop; 0 if none did.
        cleanup_error: Set if sandboxes were left behind.
        held: The sandbox time that the run has used, and its cost; None if it has used none.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    job_id: str
    run_dir: Path
    first_step: int
    step: int
    of: int
    rounds: tuple[Round, ...]
    is_short: bool = False
    flags: tuple[Flag, ...] = ()
    signal_number: int = 0
    cleanup_error: CleanupError | None = None
    held: SandboxTime | None = None
    exhausted: str = ""

    @property
    def failures(self) -> tuple[str, ...]:
        """Why rounds trained nothing, one for each that did not."""
        return tuple(each.failure for each in self.rounds if each.failure)

    @property
    def dropped(self) -> int:
        """How many episodes were lost to infrastructure."""
        return sum(each.dropped for each in self.rounds)

    @property
    def failure(self) -> SandrlError | None:
        """Why it ended before its last step, where nobody interrupted it; None if it did not."""
        if self.step >= self.of or (self.is_short and self.step):
            return None
        last = list(takewhile(lambda each: each.failure, reversed(self.rounds)))
        if not last:
            return TrainingError("nothing was trained: all recorded episodes have been used")
        lost = sum(each.dropped for each in last)
        if lost:
            return InfrastructureError(
                f"step {self.step + 1} could not be trained: {lost} episodes were lost; {last[0].failure}",
                hint=f"sandrl runs show {self.run_dir.name} shows the reason of each",
            )
        return TrainingError(
            f"step {self.step + 1} had no gradient, {len(last)} times: {last[0].failure}",
            hint=_HINT if last[0].failure.startswith(EQUAL_REWARDS) else None,
        )

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget is used up.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If it ended before its last step, and episodes were lost.
            TrainingError: If it ended before its last step, or nothing was trained at all.
        """
        raise_for_end(
            f"interrupted after step {self.step} of {self.of}; finished steps are saved in {self.run_dir}",
            signal_number=self.signal_number,
            cleanup_error=self.cleanup_error,
            hint=f"sandrl art train --resume {self.run_dir.name}",
            exhausted=self.exhausted if self.step < self.of else "",
            budget_hint=f"sandrl art train --resume {self.run_dir.name} --budget … continues with a larger budget",
        )
        if self.failure is not None:
            raise self.failure
