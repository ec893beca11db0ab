"""Reward policies: they compute the reward from a verdict.

A policy is a plain function of a verdict and its completion, so one verdict (which is expensive) can be rewarded in
several ways (which is cheap), and a policy cannot turn an unscorable verdict into a number. A new one is a function in
this file and its line in `POLICIES`, or a function of the user's, `file.py:function`. Rewards for anything but
correctness (form, length, time) are components. They are kept apart from the reward everywhere, so that a model that
learns to please them is never mistaken for one that solves problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import SupportsFloat, SupportsIndex, TypeAlias

from sandrl.answers.extraction import Extraction, extract
from sandrl.bounds import LARGEST_WEIGHT, check_weight
from sandrl.errors import UsageError
from sandrl.events.results import CheckStatus, Status
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion
from sandrl.scoring.user_functions import check_function, load_function, name_of, names_file, reason_of
from sandrl.suggestions import VALUES, near

RewardPolicy: TypeAlias = Callable[[Verdict, Completion], float | None]
"""A function that computes the reward of a completion that can be scored: `f(verdict, completion) -> float | None`.

It is called once for each completion, also for identical ones that are judged only once. `status`, `passed`, `total`
and `checks` of the verdict describe the outcome, `score` and `scores` what the verifier of a task wrote; `stdout`,
`stderr`, `wall_seconds` and `cpu_seconds` the execution.
Of the completion, `completion` is the text of the model (`None` if the row contained only code), `code` is the code
that was judged (`None` if none was found), `id` and `task_id` are its names. It returns a number from -1,000,000 to
1,000,000, or `None` to abstain: the completion then has no reward, and the status `abstained`.
"""

LONG_CHARACTERS = 4000
"""A completion of this many characters, or more, gets the whole length penalty."""


def binary(verdict: Verdict, completion: Completion) -> float:
    """1.0 if every check passed, else 0.0; for a task, the reward that its verifier gives."""
    if verdict.score is not None:
        return verdict.score
    return 1.0 if verdict.is_pass else 0.0


def fraction(verdict: Verdict, completion: Completion) -> float:
    """The share of checks that passed; 0.0 for code that did not come to an end by itself; as `binary` for a task.

    Code that took too long for single checks did; of code that took all of its time nothing has passed. A check that
    the problem's checker gives a part counts as that part.

    Only a pass is 1.0: code that failed although all of its checks passed counts as if the last one had not.
    """
    if verdict.score is not None:
        return verdict.score
    if verdict.is_pass:
        return 1.0
    if verdict.status not in (Status.FAILED, Status.TIMEOUT, Status.COMPILE_ERROR) or verdict.total <= 0:
        return 0.0
    parts = sum(check.score or 0.0 for check in verdict.checks if check.status is CheckStatus.FAILED)
    return (min(verdict.passed, verdict.total - 1) + parts) / verdict.total


POLICIES: Mapping[str, RewardPolicy] = {"binary": binary, "fraction": fraction}
"""The policies of sandrl, as `--reward` names them; the first line of their docstrings is what help says of them."""


def load_policy(name: str, *, field: str = "reward") -> RewardPolicy:
    """Loads a reward policy by its name.

    Args:
        name: A name in `POLICIES`, `package.module:function`, found from the current directory first, or
            `path/to/file.py:function`.

    Raises:
        UsageError: If there is no policy of that name, or it cannot be called with a verdict and a completion.
    """
    if ":" in name or names_file(name):
        return load_function(field, name, ("verdict", "completion"))
    if name not in POLICIES:
        raise UsageError(
            f"{field} is {name!r}, which is not one of {', '.join(POLICIES)}{near(name, POLICIES, VALUES)}",
            hint="name your own function as package.module:function or path/to/file.py:function",
        )
    return POLICIES[name]


def as_policy(reward: str | RewardPolicy) -> RewardPolicy:
    """Returns a policy that was given as a function or by its name.

    Raises:
        UsageError: If there is no policy of that name, or it cannot be called with a verdict and a completion.
    """
    if isinstance(reward, str):
        return load_policy(reward)
    return check_function(f"reward is {reward!r}", reward, ("verdict", "completion"))


def reward_of(verdict: Verdict, completion: Completion, policy: RewardPolicy = binary) -> float | None:
    """Computes the reward of a verdict under a policy.

    Returns:
        The number that the policy returns, from 0.0 to 1.0 for the policies of sandrl; `None` if the status is
        unscorable, or the policy abstains.

    Raises:
        UsageError: If the policy raises, or returns neither a finite number nor `None`.
    """
    if not verdict.status.scorable:
        return None
    try:
        given = policy(verdict, completion)
        if given is None:
            return None
        # To ask for the protocols takes longer than the rest.
        is_number = type(given) is float or isinstance(given, SupportsFloat | SupportsIndex)
        reward = float(given) if is_number else math.nan
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UsageError(f"{_call(policy, verdict, completion)} raised {reason_of(error)}") from error
    if is_number and abs(reward) <= LARGEST_WEIGHT:
        return reward
    called = _call(policy, verdict, completion)
    if not is_number:
        raise UsageError(f"{called} returned a value of the type {type(given).__name__}, not a number")
    check_weight(f"{called} returned {reward:g}: a reward", reward, least=-LARGEST_WEIGHT)
    return reward


def _call(policy: RewardPolicy, verdict: Verdict, completion: Completion) -> str:
    return f"the reward function {name_of(policy)}, called for {completion.id!r} ({verdict.status.value}),"


@dataclass(frozen=True, slots=True)
class Components:
    """Weights of rewards in addition to correctness; a weight of 0.0 turns a component off.

    Attributes:
        format_reward: Added for a completion that is one `<answer>…</answer>` and nothing else.
        length_penalty: Subtracted in proportion to the completion's length; the whole penalty applies from
            `LONG_CHARACTERS` characters on.
        timeout_penalty: Subtracted from a completion with the status `timeout`.

    Raises:
        UsageError: If a weight is negative, not a number, or larger than `bounds.LARGEST_WEIGHT`.
    """

    format_reward: float = 0.0
    length_penalty: float = 0.0
    timeout_penalty: float = 0.0

    def __post_init__(self) -> None:
        check_weight("format_reward", self.format_reward)
        check_weight("length_penalty", self.length_penalty)
        check_weight("timeout_penalty", self.timeout_penalty)

    def of(self, text: str, verdict: Verdict) -> dict[str, float]:
        if not (self.format_reward or self.length_penalty or self.timeout_penalty) or not verdict.status.scorable:
            return {}
        found: dict[str, float] = {}
        if self.format_reward:
            found["format"] = self.format_reward if extract(text, Extraction.EXACT) is not None else 0.0
        if self.length_penalty:
            found["length"] = -self.length_penalty * min(len(text) / LONG_CHARACTERS, 1.0)
        if self.timeout_penalty:
            found["timeout"] = -self.timeout_penalty if verdict.status is Status.TIMEOUT else 0.0
        return found
