"""From a verdict to the number that is trained on.

The design decision: a policy is a plain function of the verdict, so that one verdict (which is dear) can be rewarded in
several ways (which is cheap), and a policy cannot turn an unscorable verdict into a number. What is rewarded besides
correctness (form, length, time) are components, told apart from the reward everywhere, so that a model that learns
to please them is never mistaken for one that solves problems.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sandrl.bounds import LARGEST_WEIGHT, check_weight
from sandrl.rewards.extraction import Extraction, extract
from sandrl.rewards.verdict import Status, Verdict

RewardPolicy: TypeAlias = Callable[[Verdict], float]

LONG_CHARACTERS = 4000
"""A completion of this many characters, or more, has the whole length penalty."""


class RewardName(StrEnum):
    """The policies, as options name them."""

    BINARY = "binary"
    FRACTION = "fraction"

    @property
    def policy(self) -> RewardPolicy:
        """The policy of that name."""
        return {RewardName.BINARY: binary, RewardName.FRACTION: fraction}[self]


def binary(verdict: Verdict) -> float:
    """1.0 if every check passed, else 0.0."""
    return 1.0 if verdict.is_pass else 0.0


def fraction(verdict: Verdict) -> float:
    """The share of checks that passed; 0.0 for code that did not come to an end by itself.

    Code that took too long for single checks did; of code that took all of its time nothing has passed.

    Only a pass is 1.0: code that failed although all of its checks passed counts as if the last one had not.
    """
    if verdict.is_pass:
        return 1.0
    if verdict.status not in (Status.FAILED, Status.TIMEOUT) or verdict.total <= 0:
        return 0.0
    return min(verdict.passed, verdict.total - 1) / verdict.total


def reward_of(verdict: Verdict, policy: RewardPolicy = binary) -> float | None:
    """The reward of a verdict under a policy.

    Args:
        verdict: What happened.
        policy: How to value it.

    Returns:
        What the policy gives, from 0.0 to 1.0 for those of sandrl; None where the verdict says nothing about the code.

    Raises:
        UsageError: If the policy gives no finite number.
    """
    if not verdict.status.scorable:
        return None
    reward = policy(verdict)
    check_weight(f"what the reward policy gives for {verdict.status.value!r}", reward, least=-LARGEST_WEIGHT)
    return reward


@dataclass(frozen=True, slots=True)
class Components:
    """What is rewarded besides correctness; a weight of 0.0 leaves a component out.

    Attributes:
        format_reward: For a completion that is one `<answer>…</answer>` and nothing else.
        length_penalty: Taken off in proportion to the completion's length, all of it from `LONG_CHARACTERS` on.
        timeout_penalty: Taken off a completion that ran out of time.

    Raises:
        UsageError: If a weight is negative, not a number, or larger than `bounds.LARGEST_WEIGHT`.
    """

    format_reward: float = 0.0
    length_penalty: float = 0.0
    timeout_penalty: float = 0.0

    def __post_init__(self) -> None:
        check_weight("--format-reward", self.format_reward)
        check_weight("--length-penalty", self.length_penalty)
        check_weight("--timeout-penalty", self.timeout_penalty)

    def of(self, text: str, verdict: Verdict) -> dict[str, float]:
        """The components of one completion by name; none where there is no reward either.

        Args:
            text: What the model wrote.
            verdict: What came of it.
        """
        if not verdict.status.scorable:
            return {}
        found: dict[str, float] = {}
        if self.format_reward:
            found["format"] = self.format_reward if extract(text, Extraction.EXACT) is not None else 0.0
        if self.length_penalty:
            found["length"] = -self.length_penalty * min(len(text) / LONG_CHARACTERS, 1.0)
        if self.timeout_penalty:
            found["timeout"] = -self.timeout_penalty if verdict.status is Status.TIMEOUT else 0.0
        return found
