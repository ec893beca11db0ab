"""The report of a run of episodes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.errors import CleanupError, InfrastructureError, raise_for_end
from sandrl.runs.held import SandboxTime


@dataclass(frozen=True, slots=True)
class StepResult:
    step: int
    rewards: tuple[float, ...]
    passed: int
    dropped: int
    seconds: float

    @property
    def mean_reward(self) -> float | None:
        """Of the scored episodes; None if there is none."""
        return math.fsum(self.rewards) / len(self.rewards) if self.rewards else None


@dataclass(frozen=True, slots=True)
class RolloutRun:
    """A run of episodes that is over.

    Attributes:
        steps: What came of each step; the last one may have been given up.
        first_loss: Why the first lost episode was lost; empty if none was.
        signal_number: The signal that asked to stop; 0 if none did.
        exhausted: Says that the budget is used up; empty if it is not.
    """

    job_id: str
    run_dir: Path
    model: str
    steps: tuple[StepResult, ...]
    of: int
    first_loss: str = ""
    unfinished: int = 0
    signal_number: int = 0
    cleanup_error: CleanupError | None = None
    held: SandboxTime = field(default_factory=SandboxTime)
    exhausted: str = ""

    @property
    def finished(self) -> int:
        """How many steps are over; one whose episodes were given up is not."""
        return len(self.steps) - bool(self.unfinished)

    @property
    def total(self) -> StepResult:
        return StepResult(
            len(self.steps),
            tuple(reward for step in self.steps for reward in step.rewards),
            sum(step.passed for step in self.steps),
            sum(step.dropped for step in self.steps),
            math.fsum(step.seconds for step in self.steps),
        )

    def raise_for_outcome(self) -> None:
        given_up = f", {self.unfinished} episodes were abandoned" if self.unfinished else ""
        done = f"{self.finished} of {self.of} steps"
        message = f"interrupted after {done}{given_up}; finished steps are saved in {self.run_dir}"
        raise_for_end(
            message,
            signal_number=self.signal_number,
            cleanup_error=self.cleanup_error,
            exhausted=self.exhausted if self.unfinished or len(self.steps) < self.of else "",
        )
        total = self.total
        if total.dropped:
            count = total.dropped + len(total.rewards)
            raise InfrastructureError(
                f"{total.dropped} of {count} episodes were lost and are not counted: {self.first_loss}",
                hint=f"sandrl runs show {self.run_dir.name} shows the reason for each",
            )
