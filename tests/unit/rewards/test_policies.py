"""What a verdict is worth."""

from __future__ import annotations

from typing import cast

import pytest

from sandrl.errors import UsageError
from sandrl.events.results import Status, Trust
from sandrl.judge.limits import Limits
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion, Problem
from sandrl.rewards.scoring import lifetime_seconds
from sandrl.scoring.policies import (
    LONG_CHARACTERS,
    POLICIES,
    Components,
    RewardPolicy,
    binary,
    fraction,
    load_policy,
    reward_of,
)

ANSWER = Completion("double", "double", completion="<answer>x</answer>", code="x")


def verdict(status: Status, passed: int = 0, total: int = 4) -> Verdict:
    return Verdict(status, Trust.ISOLATED, passed, total)


@pytest.mark.parametrize(
    ("status", "passed", "total", "in_full", "in_part"),
    [
        (Status.PASSED, 4, 4, 1.0, 1.0),
        (Status.PASSED, 3, 4, 0.0, 0.0),
        (Status.PASSED, 0, 0, 0.0, 0.0),
        (Status.FAILED, 3, 4, 0.0, 0.75),
        (Status.FAILED, 4, 4, 0.0, 0.75),
        (Status.FAILED, 1, 1, 0.0, 0.0),
        (Status.TIMEOUT, 3, 4, 0.0, 0.75),
        (Status.TIMEOUT, 0, 4, 0.0, 0.0),
        (Status.CRASHED, 3, 4, 0.0, 0.0),
        (Status.RESOURCE_LIMIT, 3, 4, 0.0, 0.0),
    ],
)
def test_only_a_pass_is_worth_it_all(status: Status, passed: int, total: int, in_full: float, in_part: float) -> None:
    found = verdict(status, passed, total)
    assert (binary(found, ANSWER), fraction(found, ANSWER)) == (in_full, in_part)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("status", Status)
def test_a_reward_is_none_exactly_where_nothing_can_be_said_about_the_code(name: str, status: Status) -> None:
    reward = reward_of(verdict(status, 4), ANSWER, load_policy(name))
    is_none = status in {
        "invalid_problem",
        "not_isolated",
        "infrastructure",
        "reward_error",
        "judge_error",
        "abstained",
    }
    assert (reward is None) == is_none
    assert (reward == 1.0) == (status is Status.PASSED)
    assert (Components(1.0, 1.0, 1.0).of("<answer>x</answer>", verdict(status)) == {}) == is_none


def test_a_policy_may_abstain_and_has_to_say_so() -> None:
    assert reward_of(verdict(Status.PASSED), ANSWER, lambda verdict, completion: None) is None
    with pytest.raises(UsageError, match="returned a value of the type str, not a number"):
        reward_of(verdict(Status.PASSED), ANSWER, cast(RewardPolicy, lambda verdict, completion: "None"))


def test_components_are_those_that_were_asked_for() -> None:
    assert Components().of("x", verdict(Status.PASSED)) == {}
    assert Components(format_reward=0.1).of("<answer>x</answer>", verdict(Status.FAILED)) == {"format": 0.1}
    assert Components(format_reward=0.1).of("Well: <answer>x</answer>", verdict(Status.FAILED)) == {"format": 0.0}
    half = "x" * (LONG_CHARACTERS // 2)
    assert Components(length_penalty=0.2).of(half, verdict(Status.PASSED)) == {"length": -0.1}
    assert Components(length_penalty=0.2).of(half * 9, verdict(Status.PASSED)) == {"length": -0.2}
    assert Components(timeout_penalty=0.3).of("x", verdict(Status.TIMEOUT)) == {"timeout": -0.3}
    assert Components(timeout_penalty=0.3).of("x", verdict(Status.FAILED)) == {"timeout": 0.0}


def test_a_sandbox_lives_longer_than_the_slowest_problem_may_take() -> None:
    slow = Problem("slow", "", check="exit_status", timeout_seconds=1000)
    plain = Problem("p", "Add one.", tests=("assert f(1) == 2",))
    assert lifetime_seconds({"slow": slow, "p": plain}, Limits(timeout_seconds=10)) > 1000
    assert lifetime_seconds({"p": plain}, Limits(timeout_seconds=2000)) > 2000
