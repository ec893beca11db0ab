"""A request of a framework, from its options: where rows have a `ground_truth` and a reward is a number."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sandrl.events.results import ScoredCompletion
from sandrl.integrations.backend import Backend, Scoring, backend_for
from sandrl.integrations.outcome import Unscorable, reward_of, unscorable_of
from sandrl.integrations.problems import plain, problem_of_truth
from sandrl.problems import Problem


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
