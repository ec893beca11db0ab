"""What the isolated judge learns from a reference: whether a problem's checks can be kept apart from completions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.problems import Problem
from sandrl.rewards.judge import IsolatedJudge, Limits, Review
from sandrl.rewards.reference import is_plain
from sandrl.rewards.verdict import Status, Trust, Verdict

PROBLEM = Problem("t", "", tests=("x = f()\nassert x == 1",), entry_point="f", reference="def f():\n    return 1\n")
PASSED = Verdict(Status.PASSED, Trust.ISOLATED, 1, 1)
FAILED = Verdict(Status.FAILED, Trust.ISOLATED, 0, 1, "check 1 of 1: AssertionError")
REFUSED = Verdict(Status.NOT_ISOLATED, Trust.ISOLATED, 0, 1, "a function cannot be handed to the completion")


def in_process(verdict: Verdict) -> Verdict:
    return replace(verdict, trust=Trust.IN_PROCESS)


def trusts(judge: IsolatedJudge) -> list[Trust]:
    """The trust of a completion's verdict and of the reference's, if they ran now."""
    limits = Limits()
    return [judge.prepare(PROBLEM, "f = 1", limits).trust, judge.prepare_trial(PROBLEM, FAILED, limits).trust]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("assert f([1, (2, 'a')], k={1: None})[0] == {1, -2} and not f(3) >= 1.5", True),
        ("assert sorted(f(1)) == [1] or abs(f(2) - 1.5) < 1e-6, 'wrong'", True),
        ("assert f(f(1)) in (1, 2)", True),
        ("assert f(len, [1]) == 1", False),
        ("assert f(lambda: 1) == 1", False),
        ("assert f(1) is not f(1)", False),
        ("assert f.__name__ == 'f'", False),
        ("assert f(1).x == 1", False),
        ("assert [f(n) for n in (1, 2)] == [1, 2]", False),
        ("try:\n    f()\nexcept ValueError:\n    pass", False),
        ("assert eval(f(1)) == 1", False),
        ("assert f(", False),
    ],
)
def test_plain_checks_are_calls_and_comparisons(test: str, expected: bool) -> None:
    assert is_plain(test) is expected


def test_a_problem_of_plain_checks_needs_no_trial() -> None:
    problem = replace(PROBLEM, tests=("assert f() == 1",))
    for judge in (IsolatedJudge(), IsolatedJudge(require_isolated=True)):
        assert judge.review(problem, FAILED) == FAILED
        ruling = judge.review(problem, REFUSED)
        assert isinstance(ruling, Verdict)
        assert ruling.status is Status.FAILED


def test_a_pass_needs_no_trial() -> None:
    judge = IsolatedJudge()
    assert judge.review(PROBLEM, PASSED) == PASSED
    timeout = replace(FAILED, status=Status.TIMEOUT)
    assert judge.review(PROBLEM, timeout) == timeout


def test_a_failure_counts_once_the_reference_has_passed_in_the_same_way() -> None:
    judge = IsolatedJudge()
    assert judge.review(PROBLEM, FAILED) is Review.TRY_REFERENCE
    judge.hear_trial(PROBLEM, PASSED)
    assert judge.review(PROBLEM, FAILED) == FAILED
    assert trusts(judge) == [Trust.ISOLATED, Trust.ISOLATED]


def test_a_reference_that_passes_only_in_one_process_decides_for_one() -> None:
    judge = IsolatedJudge()
    assert judge.review(PROBLEM, FAILED) is Review.TRY_REFERENCE
    judge.hear_trial(PROBLEM, FAILED)
    assert trusts(judge) == [Trust.ISOLATED, Trust.IN_PROCESS]
    assert judge.review(PROBLEM, FAILED) is Review.TRY_REFERENCE
    judge.hear_trial(PROBLEM, in_process(PASSED))
    assert judge.review(PROBLEM, FAILED) is Review.AGAIN
    assert trusts(judge)[0] is Trust.IN_PROCESS
    assert judge.review(PROBLEM, in_process(FAILED)) == in_process(FAILED)


def test_a_reference_that_always_fails_lowers_no_guard() -> None:
    judge = IsolatedJudge()
    judge.hear_trial(PROBLEM, FAILED)
    judge.hear_trial(PROBLEM, in_process(FAILED))
    assert judge.review(PROBLEM, FAILED) == FAILED
    assert trusts(judge)[0] is Trust.ISOLATED


def test_a_reference_that_was_too_slow_lowers_no_guard() -> None:
    judge = IsolatedJudge()
    judge.hear_trial(PROBLEM, replace(FAILED, status=Status.TIMEOUT))
    assert judge.review(PROBLEM, FAILED) == FAILED


def test_no_completion_decides_that_a_problem_cannot_be_split() -> None:
    for require_isolated in (False, True):
        judge = IsolatedJudge(require_isolated=require_isolated)
        assert judge.review(PROBLEM, REFUSED) is Review.TRY_REFERENCE
        judge.hear_trial(PROBLEM, PASSED)
        ruling = judge.review(PROBLEM, REFUSED)
        assert isinstance(ruling, Verdict)
        assert ruling.status is Status.FAILED


def test_where_isolation_is_required_such_a_problem_has_no_reward() -> None:
    judge = IsolatedJudge(require_isolated=True)
    judge.hear_trial(PROBLEM, FAILED)
    judge.hear_trial(PROBLEM, in_process(PASSED))
    ruling = judge.review(PROBLEM, FAILED)
    assert isinstance(ruling, Verdict)
    assert ruling.status is Status.NOT_ISOLATED
    assert trusts(judge)[0] is Trust.ISOLATED
    assert judge.review(PROBLEM, PASSED) == PASSED


def test_that_a_problem_is_broken_is_not_for_a_completion_to_say() -> None:
    invalid = Verdict(Status.INVALID_PROBLEM, Trust.IN_PROCESS, 0, 1, "a")
    for found, expected in ((replace(FAILED, detail="no f"), Status.CRASHED), (invalid, Status.INVALID_PROBLEM)):
        judge = IsolatedJudge()
        assert judge.review(PROBLEM, invalid) is Review.TRY_REFERENCE
        judge.prepare_trial(PROBLEM, invalid, Limits())
        judge.hear_trial(PROBLEM, found)
        ruling = judge.review(PROBLEM, invalid)
        assert isinstance(ruling, Verdict)
        assert (ruling.status, ruling.status.scorable) == (expected, expected is Status.CRASHED)
        assert judge.review(PROBLEM, FAILED) is Review.TRY_REFERENCE, "nothing was learned about the checks"
