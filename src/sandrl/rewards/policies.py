"""From a verdict to the number that is trained on.

The design decision: a policy is a plain function of the verdict, so that one verdict (which is dear) can be rewarded in
several ways (which is cheap), and a policy cannot turn an unscorable verdict into a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sandrl.rewards.verdict import Verdict

RewardPolicy: TypeAlias = Callable[[Verdict], float]


def binary(verdict: Verdict) -> float:
    """1.0 if every check passed, else 0.0."""
    return 1.0 if verdict.is_pass else 0.0


def reward_of(verdict: Verdict, policy: RewardPolicy = binary) -> float | None:
    """The reward of a verdict under a policy.

    Args:
        verdict: What happened.
        policy: How to value it.

    Returns:
        A number from 0.0 to 1.0, or None where the verdict says nothing about the code.
    """
    return policy(verdict) if verdict.status.scorable else None
