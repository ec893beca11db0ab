"""What a verdict is worth."""

from __future__ import annotations

import pytest

from sandrl.events.results import Status, Trust
from sandrl.problems import Completion
from sandrl.rewards.policies import LONG_CHARACTERS, POLICIES, Components, binary, fraction, load_policy, reward_of
from sandrl.rewards.verdict import Verdict

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
@pytest.mark.parametrize(
    "status", [Status.INFRASTRUCTURE, Status.NOT_ISOLATED, Status.INVALID_PROBLEM, Status.REWARD_ERROR]
)
def test_no_policy_makes_a_number_of_an_unscorable_verdict(name: str, status: Status) -> None:
    assert reward_of(verdict(status, 4), ANSWER, load_policy(name)) is None
    assert Components(1.0, 1.0, 1.0).of("<answer>x</answer>", verdict(status)) == {}


def test_components_are_those_that_were_asked_for() -> None:
    assert Components().of("x", verdict(Status.PASSED)) == {}
    assert Components(format_reward=0.1).of("<answer>x</answer>", verdict(Status.FAILED)) == {"format": 0.1}
    assert Components(format_reward=0.1).of("Well: <answer>x</answer>", verdict(Status.FAILED)) == {"format": 0.0}
    half = "x" * (LONG_CHARACTERS // 2)
    assert Components(length_penalty=0.2).of(half, verdict(Status.PASSED)) == {"length": -0.1}
    assert Components(length_penalty=0.2).of(half * 9, verdict(Status.PASSED)) == {"length": -0.2}
    assert Components(timeout_penalty=0.3).of("x", verdict(Status.TIMEOUT)) == {"timeout": -0.3}
    assert Components(timeout_penalty=0.3).of("x", verdict(Status.FAILED)) == {"timeout": 0.0}
