"""What a run of episodes is asked for, and what comes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.bounds import check_seconds
from sandrl.errors import CleanupError, InfrastructureError, UsageError, raise_for_end
from sandrl.models.protocol import Sampling
from sandrl.rewards.judge import Limits, check_limits
from sandrl.rewards.policies import Components, load_policy
from sandrl.rollouts.episodes import EpisodeOptions
from sandrl.sandboxes import SandboxRequest
from sandrl.settings import ReportTo

LOCAL_MODEL = "Qwen/Qwen2.5-3B-Instruct"
OPENAI_MODEL = "gpt-4o-mini"

DATASET_SPLIT = "train"
_HAVE_SPLITS = ("mbpp", "tiny")


def training_split(problems: str) -> str:
    """A set of problems as `load_problems` takes it: its split for training, where it is known to have one."""
    return f"{problems}:{DATASET_SPLIT}" if problems in _HAVE_SPLITS else problems


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """What to play, and how.

    Attributes:
        model: Who plays; what the endpoint calls it.
        use_openai: Whether the endpoint is OpenAI's unless an address is given.
        base_url: Its address.
        problems: The set of problems.
        dataset_split: Their split; `train` unless given, where the set is known to have one.
        dataset_limit: Only so many of them, the first; 0 for all.
        num_steps: How many steps.
        batch_size: How many problems a step has.
        trajectories_per_problem: How many episodes a step has of each: a group.
        episode: How an episode goes.
        sampling: How the model answers.
        request_timeout_seconds: How long one answer may take.
        request_retries: How often an endpoint that does not answer is asked again.
        concurrency: How many episodes at once.
        limits: What a solution may use; its time is also that of one command.
        reward: The policy that turns a verdict into a reward, as `load_policy` takes it.
        components: What is rewarded besides.
        project: The project a later training belongs to, and W&B's.
        learning_rate: That of a later training; kept with the run.
        sandboxes: Where solutions and tools run.
        runs_dir: Where the run directory is made; what the settings say unless given.
        run_name: Its name.
        report_to: Where metrics go besides the run directory.
    """

    model: str | None = None
    use_openai: bool = False
    base_url: str | None = None
    problems: str = "mbpp"
    dataset_split: str | None = None
    dataset_limit: int = 100
    num_steps: int = 10
    batch_size: int = 4
    trajectories_per_problem: int = 1
    episode: EpisodeOptions = field(default_factory=EpisodeOptions)
    sampling: Sampling = field(default_factory=lambda: Sampling(max_tokens=2048))
    request_timeout_seconds: float = 120.0
    request_retries: int = 4
    concurrency: int | None = None
    limits: Limits = field(default_factory=Limits)
    reward: str = "binary"
    components: Components = field(default_factory=Components)
    project: str = "aviato-rl-demo"
    learning_rate: float = 2e-5
    sandboxes: SandboxRequest = field(default_factory=SandboxRequest)
    runs_dir: Path | None = None
    run_name: str | None = None
    report_to: ReportTo = ReportTo.AUTO

    @property
    def model_name(self) -> str:
        """Who plays, where the user did not say."""
        return self.model or (OPENAI_MODEL if self.use_openai else LOCAL_MODEL)

    @property
    def source(self) -> str:
        """The set of problems with its split, as `load_problems` takes it."""
        if self.dataset_split is not None:
            return f"{self.problems}:{self.dataset_split}"
        return training_split(self.problems)

    @property
    def episodes(self) -> int:
        """How many episodes a step has."""
        return self.batch_size * self.trajectories_per_problem

    def check(self) -> None:
        """Finds options that cannot work.

        Raises:
            UsageError: If there is one.
        """
        check_limits(self.limits)
        load_policy(self.reward)
        if self.dataset_split is not None and ":" in self.problems:
            raise UsageError("--problems names a split already: leave out --dataset-split")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"--learning-rate must be a number above 0, not {self.learning_rate:g}")
        check_seconds("--request-timeout", self.request_timeout_seconds)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What came of a step.

    Attributes:
        step: Which one, from 0.
        rewards: The rewards of the scored episodes.
        passed: How many passed every check.
        dropped: How many were lost to infrastructure.
        seconds: How long it took.
    """

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
        job_id: The job.
        run_dir: Where it is written down.
        model: Who played.
        steps: What came of each step; the last one may have been given up.
        of: How many steps there were to be.
        first_loss: Why the first lost episode was lost; empty if none was.
        unfinished: How many episodes were given up.
        signal_number: The signal that asked to stop; 0 if none did.
        cleanup_error: Set if sandboxes were left behind.
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

    @property
    def finished(self) -> int:
        """How many steps are over; one whose episodes were given up is not."""
        return len(self.steps) - bool(self.unfinished)

    @property
    def total(self) -> StepResult:
        """All steps together."""
        return StepResult(
            len(self.steps),
            tuple(reward for step in self.steps for reward in step.rewards),
            sum(step.passed for step in self.steps),
            sum(step.dropped for step in self.steps),
            math.fsum(step.seconds for step in self.steps),
        )

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If episodes were lost.
        """
        given_up = f", {self.unfinished} episodes given up" if self.unfinished else ""
        message = (
            f"interrupted after {self.finished} of {self.of} steps{given_up}; what is done is saved in {self.run_dir}"
        )
        raise_for_end(message, signal_number=self.signal_number, cleanup_error=self.cleanup_error)
        total = self.total
        if total.dropped:
            count = total.dropped + len(total.rewards)
            raise InfrastructureError(
                f"{total.dropped} of {count} episodes were lost and count for nothing: {self.first_loss}",
                hint=f"sandrl runs show {self.run_dir.name} has the reason of each",
            )
