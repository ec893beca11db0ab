"""What a result becomes for a framework that needs a number.

The design decision: nothing can be said about a completion whose sandbox failed, and a number would train on it. So an
adapter raises there unless it is told which number to give.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from sandrl.errors import UsageError
from sandrl.events.results import ScoredCompletion, Status
from sandrl.rewards.summary import error_of, raise_for_rewards
from sandrl.runs.statistics import training_reward

Unscorable: TypeAlias = Literal["raise"] | float
"""What a completion without a reward becomes: an error, or this number."""


def unscorable_of(given: object) -> Unscorable:
    """What was given as `unscorable`.

    Raises:
        UsageError: If it is neither `raise` nor a finite number.
    """
    if given == "raise":
        return "raise"
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return float(given)
    raise UsageError(f"`unscorable` must be 'raise' or a finite number, not {given!r:.40}", fields=("unscorable",))


def reward_of(result: ScoredCompletion, unscorable: Unscorable = "raise") -> float:
    """The number that a trainer trains on.

    Args:
        result: What happened to a completion.
        unscorable: What to give where there is no reward.

    Raises:
        InfrastructureError: If there is none because sandboxes failed, and that is not to be a number.
        InputError: If there is none because of the problem, and that is not to be a number.
        UsageError: If the reward policy failed.
    """
    reward = training_reward(result.reward, result.components)
    if reward is not None:
        return reward
    if result.status is Status.REWARD_ERROR:
        raise_for_rewards([result])
    if unscorable == "raise":
        raise error_of(result, hint="`unscorable` may name a number that such completions get instead")
    return unscorable


def metrics_of(result: ScoredCompletion) -> dict[str, float]:
    """What frameworks log of a result, as numbers: the same names for every result."""
    return {
        "passed": float(result.is_pass),
        "checks_passed": result.passed / result.total if result.total else 0.0,
        "unscorable": float(result.reward is None),
    }
