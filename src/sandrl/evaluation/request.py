"""What an evaluation is asked for, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandrl.bounds import check_seconds
from sandrl.config.scoring import ScoredRunConfig
from sandrl.errors import InfrastructureError, InterruptedRunError, UsageError
from sandrl.models import Sampling
from sandrl.problems.prompts import SHOWN_TESTS
from sandrl.rewards import RewardRun

SAMPLES = 4
"""Answers to each problem, unless told otherwise or greedy."""


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """Which model to evaluate, and how.

    Attributes:
        scoring: The problems, and how answers are scored.
        model: `tiny`, a directory with a model, a model of the hub, or what an endpoint calls it; None for the only one
            of the endpoint, or `tiny` without one.
        base_url: Address of an OpenAI-compatible endpoint; None asks a model in this process.
        num_problems: How many problems, the first of the set; None for all.
        samples: Answers to each; None for the usual number, which is 1 where they are greedy.
        sampling: How answers are generated.
        show_tests: How many checks a prompt shows.
        batch_size: How many answers at once; what suits the model unless given.
        seed: Decides what is sampled, as far as the model can, and how the tiny policy is made.
        request_timeout_seconds: How long one answer of an endpoint may take.
        request_retries: How often an endpoint that does not answer is asked again.
        resume: The evaluation to go on with: a run's name, its directory, or `latest`.
    """

    scoring: ScoredRunConfig
    model: str | None = None
    base_url: str | None = None
    num_problems: int | None = None
    samples: int | None = None
    sampling: Sampling = field(default_factory=Sampling)
    show_tests: int = SHOWN_TESTS
    batch_size: int | None = None
    seed: int = 0
    request_timeout_seconds: float = 120.0
    request_retries: int = 4
    resume: str | None = None

    @property
    def answers(self) -> int:
        """How many answers each problem gets."""
        return self.samples or (1 if self.sampling.is_greedy else SAMPLES)

    def check(self) -> None:
        """Finds options that cannot work.

        Raises:
            UsageError: If there is one.
        """
        check_seconds("--request-timeout", self.request_timeout_seconds)
        if self.request_retries < 0:
            raise UsageError(f"--request-retries must be 0 or more, not {self.request_retries}")
        if self.sampling.is_greedy and (self.samples or 1) > 1:
            raise UsageError("greedy answers to a problem are all the same: leave out --samples")
        if self.resume is not None and self.scoring.run_name is not None:
            raise UsageError("--resume and --run-name contradict each other: the run that is resumed has a name")


@dataclass(frozen=True, slots=True)
class EvalRun:
    """A finished evaluation.

    Attributes:
        model: What was evaluated.
        problems: On how many problems.
        answers: How many answers each got.
        sampling: How these were generated.
        run: What came of them.
    """

    model: str
    problems: int
    answers: int
    sampling: Sampling
    run: RewardRun

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with; see `RewardRun.raise_for_outcome`.

        Raises:
            SandrlError: What that raises, with the command that asks for the rest, where there is a rest.
        """
        try:
            self.run.raise_for_outcome()
        except (InterruptedRunError, InfrastructureError) as error:
            is_cleanup = self.run.cleanup_error is not None and isinstance(error, InterruptedRunError)
            error.hint = error.hint if is_cleanup else resume_hint(self.run.run_dir.name)
            raise


def resume_hint(run_id: str) -> str:
    """The command that completes an evaluation."""
    return f"sandrl eval --resume {run_id} asks for what is missing, and scores it"
