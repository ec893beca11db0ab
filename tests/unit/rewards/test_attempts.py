"""Whom a failure blames."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.judges import InProcessJudge

from sandrl.events import ignore
from sandrl.problems import Completion, Problem
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.scoring.attempts import Attempt, Step
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.judging import judging_of
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import RuntimeKind

PROBLEM = Problem("p", "", check="exit_status")
LOCAL = SdkConnection(kind=RuntimeKind.LOCAL, reason="", address="http://127.0.0.1:1", image="python", is_local=True)


def attempt(retries: int = 0) -> Attempt:
    context = ScoringContext.of(ScoreOptions(retries=retries), InProcessJudge(), LOCAL)
    return Attempt(0, Completion("c", "p", code="pass"), PROBLEM, context)


@pytest.mark.parametrize(("has_run", "last"), [(False, Step.BLAME_RUNTIME), (True, Step.ASK_CANARY)])
def test_when_the_retries_are_used_up_the_canary_is_asked_only_about_code_that_ran(has_run: bool, last: Step) -> None:
    one = attempt(retries=2)
    steps = [one.fail("lost", has_run=has_run) for _ in range(3)]
    assert steps == [Step.RETRY, Step.RETRY, last]
    assert one.failures == ["lost"] * 3


@pytest.mark.parametrize(
    ("canaries", "steps"),
    [
        ([False], [Step.BLAME_RUNTIME]),
        ([True, False], [Step.RETRY, Step.BLAME_RUNTIME]),
        ([True, True], [Step.RETRY, Step.BLAME_CODE]),
    ],
)
def test_only_a_failure_between_two_canaries_that_passed_blames_the_code(
    canaries: list[bool], steps: list[Step]
) -> None:
    one = attempt()
    for passed, step in zip(canaries, steps, strict=True):
        assert one.fail("lost", has_run=True) is Step.ASK_CANARY
        assert one.hear_canary(passed=passed) is step


def test_a_judge_that_ends_late_once_says_nothing() -> None:
    one = attempt()
    assert one.end_late(has_stalled=False) is Step.RETRY
    assert one.end_late(has_stalled=False) is Step.ASK_CANARY


def test_stalls_convict_nobody_and_cost_no_retry() -> None:
    one = attempt()
    for _ in range(3):
        assert one.end_late(has_stalled=True) is Step.RETRY
        assert one.fail("lost", has_run=True, has_stalled=True) is Step.RETRY
        assert one.fail("no sandbox", has_run=False, has_stalled=True) is Step.RETRY
    assert (one.broken, one.unreached, one.late_ends) == (0, 0, 0)


def test_code_that_is_always_late_ends_at_last_whatever_stalls() -> None:
    one = attempt()
    steps = [one.end_late(has_stalled=True) for _ in range(20)]
    assert Step.ASK_CANARY in steps


def test_the_end_of_a_runtime_that_another_one_replaced_costs_no_retry_but_not_for_ever() -> None:
    one = attempt()
    steps = [one.fail("lost", has_run=False, has_moved=True) for _ in range(12)]
    assert steps == [Step.MOVE] * 10 + [Step.BLAME_RUNTIME] * 2


def test_only_a_stop_that_comes_again_in_a_sandbox_of_its_own_is_the_codes_doing() -> None:
    one = attempt()
    assert [one.may_have_been_stopped() for _ in range(3)] == [True, True, False]


def test_a_runtime_is_not_watched_after_a_batch_though_one_before_it_was_torn_open() -> None:
    wishes: list[bool] = []
    job = cast(Any, SimpleNamespace(connection=LOCAL, watch_runtime=wishes.append))
    judging_of(job)(job, InProcessJudge(), None, ignore, lambda *_: None).end()
    assert wishes == [False]
