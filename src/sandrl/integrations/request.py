"""Requests of frameworks, made of their options, and results as the numbers that trainers need.

A completion whose sandbox failed has no reward, and any number would train on it. An adapter therefore raises an error
in that case, unless the user has set a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sandrl.errors import UsageError
from sandrl.events.results import ScoredCompletion, Status
from sandrl.integrations.backend import Backend, Scoring, backend_for
from sandrl.integrations.problems import plain, problem_of_truth
from sandrl.problems import Problem
from sandrl.runs.statistics import training_reward
from sandrl.scoring.summary import error_of, raise_for_rewards

Unscorable: TypeAlias = Literal["raise"] | float
"""The result for an unscorable completion: an error, or this number."""


def unscorable_of(given: object) -> Unscorable:
    """Parses the option `unscorable`.

    Raises:
        UsageError: If it is neither `raise` nor a finite number.
    """
    if given == "raise":
        return "raise"
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return float(given)
    raise UsageError(f"`unscorable` must be 'raise' or a finite number, not {given!r:.40}", fields=("unscorable",))


def reward_of(result: ScoredCompletion, unscorable: Unscorable = "raise") -> float:
    """The number that a trainer trains on; `unscorable` for a completion without a reward.

    Raises:
        InfrastructureError: If sandboxes failed and `unscorable` is 'raise'.
        InputError: If the problem is invalid and `unscorable` is 'raise'.
        UsageError: If the reward policy failed.
    """
    reward = training_reward(result.reward, result.components)
    if reward is not None:
        return reward
    if result.status is Status.REWARD_ERROR:
        raise_for_rewards([result])
    if unscorable == "raise":
        raise error_of(result, hint="set `unscorable` to a number to use that number instead")
    return unscorable


def metrics_of(result: ScoredCompletion) -> dict[str, float]:
    """Metrics of a result that frameworks log, as numbers: the same names for every result."""
    return {
        "passed": float(result.is_pass),
        "checks_passed": result.passed / result.total if result.total else 0.0,
        "unscorable": float(result.reward is None),
    }


@dataclass(frozen=True, slots=True)
class RewardRequest:
    """How a framework has its completions scored.

    Attributes:
        problems: The problem set for names, or None for the set of SANDRL_PROBLEMS.
    """

    backend: Backend
    problems: str | None
    scoring: Scoring
    unscorable: Unscorable

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> RewardRequest:
        """Builds a request from `problems`, `service`, `token`, `sandboxes`, `unscorable` and the options of scoring.

        Raises:
            UsageError: If one is impossible.
        """
        options = {name: plain(value) for name, value in given.items()}
        service, token, sandboxes = (options.pop(name, None) for name in ("service", "token", "sandboxes"))
        problems, unscorable = options.pop("problems", None), unscorable_of(options.pop("unscorable", "raise"))
        return cls(backend_for(service, token, sandboxes=sandboxes), problems, Scoring.of(options), unscorable)

    def problem(self, truth: object, prompt: str = "") -> Problem:
        return problem_of_truth(truth, problems=self.problems, prompt=prompt, scoring=self.scoring)

    def submit(self, truth: object, answer: str, prompt: str = "") -> Future[ScoredCompletion]:
        return self.backend.submit(self.problem(truth, prompt), answer, self.scoring)

    def reward(self, result: ScoredCompletion) -> float:
        return reward_of(result, self.unscorable)
