"""Calibration: how a problem is judged follows from trials of known code, before the first completion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.answers.reference import is_plain
from sandrl.events.results import CheckStatus, CheckVerdict, Status, Trust
from sandrl.judge.calibration import PLAIN, Calibration, modules_of
from sandrl.judge.calibrator import is_inert
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.judge.patches import draws
from sandrl.judge.verdict import Verdict
from sandrl.problems import Case, Problem
from sandrl.problems.checkers import Checker

PROBLEM = Problem("t", "", tests=("x = f()\nassert x == 1",), entry_point="f", reference="def f():\n    return 1\n")
WITHOUT_REFERENCE = replace(PROBLEM, reference=None)
DRAWING = replace(PROBLEM, reference="import random\ndef f():\n    return random.choice([1])\n")
PASSED = Verdict(Status.PASSED, Trust.ISOLATED, 1, 1)
FAILED = Verdict(Status.FAILED, Trust.ISOLATED, 0, 1, "check 1 of 1: AssertionError")
SLOW = replace(FAILED, status=Status.TIMEOUT)
REFUSED = Verdict(Status.NOT_ISOLATED, Trust.ISOLATED, 0, 1, "a function cannot be handed to the completion")
BROKEN = Verdict(Status.INVALID_PROBLEM, Trust.ISOLATED, 0, 1, "the problem's setup fails: ValueError: 3")
LIMITS = Limits()


def calibrated(judge: Judge, problem: Problem, *verdicts: Verdict) -> tuple[Calibration, list[Trust]]:
    """The calibration of a problem whose trials get these verdicts, and the trust of each trial."""
    trials, trusts, left = judge.calibrate(problem, LIMITS), [], list(verdicts)
    try:
        trial = next(trials)
        while True:
            trusts.append(trial.prepare().trust)
            trial = trials.send(left.pop(0))
    except StopIteration as end:
        assert not left, "fewer trials than verdicts"
        return end.value, trusts


def reviewed(verdict: Verdict, judge: Judge | None = None, problem: Problem = PROBLEM) -> Verdict:
    ruling = (judge or Judge()).review(problem, verdict)
    assert ruling is not None
    return ruling


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("assert f([1, (2, 'a')], k={1: None}) == {1: -2} and not f(3) >= 1.5", True),
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
        ("assert f(1)[0] == 1", False),
        ("assert f({1: 2}) == {1}", False),
        ("assert Money(5) == 5", False),
        ("assert f(", False),
    ],
)
def test_plain_checks_are_calls_and_comparisons(test: str, expected: bool) -> None:
    assert is_plain(test) is expected


def test_plain_checks_need_no_trial() -> None:
    for problem in (PROBLEM, WITHOUT_REFERENCE):
        for judge in (Judge(), Judge(require_isolated=True)):
            assert calibrated(judge, replace(problem, tests=("assert f() == 1",))) == (PLAIN, [])
    compared = replace(PROBLEM, tests=("assert f(1) == f(2)",))
    assert calibrated(Judge(), compared) == (PLAIN, [])
    assert calibrated(Judge(require_isolated=True), compared, PASSED) == (PLAIN, [Trust.ISOLATED])


def test_a_reference_that_passes_only_in_one_process_each_time_decides_for_one() -> None:
    # Where each side waits for the other one, it is a timeout.
    assert not calibrated(Judge(), PROBLEM, SLOW, PASSED, SLOW)[0].splits
    found, trusts = calibrated(Judge(), PROBLEM, FAILED, PASSED, FAILED)
    assert found.reason == "failed: check 1 of 1: AssertionError"
    assert trusts == [Trust.ISOLATED, Trust.IN_PROCESS, Trust.ISOLATED]
    judge = Judge()
    assert judge.prepare(PROBLEM, "f = 1", LIMITS, found).trust is Trust.IN_PROCESS
    assert judge.prepare(PROBLEM, "f = 1", LIMITS).trust is Trust.ISOLATED


def test_a_reference_that_passes_apart_once_or_always_fails_lowers_no_guard() -> None:
    assert calibrated(Judge(), PROBLEM, PASSED) == (PLAIN, [Trust.ISOLATED])
    assert calibrated(Judge(), PROBLEM, FAILED, PASSED, PASSED)[0] == PLAIN
    for verdict in (FAILED, SLOW):
        assert calibrated(Judge(), PROBLEM, verdict, verdict)[0] == PLAIN
    assert calibrated(Judge(), PROBLEM, replace(FAILED, status=Status.RESOURCE_LIMIT))[0] == PLAIN


def test_a_reference_that_draws_must_do_the_same_each_time() -> None:
    assert draws(DRAWING)
    assert not draws(PROBLEM)
    assert calibrated(Judge(), DRAWING, PASSED, PASSED, PASSED)[0] == PLAIN
    assert not calibrated(Judge(), DRAWING, PASSED, FAILED, PASSED, PASSED, PASSED)[0].splits
    assert calibrated(Judge(), DRAWING, FAILED, PASSED, FAILED)[0] == PLAIN


def test_what_cannot_cross_needs_one_process_even_if_the_reference_is_wrong() -> None:
    found, _ = calibrated(Judge(), PROBLEM, REFUSED, FAILED)
    assert found.reason == "not_isolated: a function cannot be handed to the completion"


def test_without_a_reference_an_answer_that_does_nothing_tells_what_cannot_cross() -> None:
    assert calibrated(Judge(), WITHOUT_REFERENCE, FAILED) == (PLAIN, [Trust.ISOLATED])
    assert not calibrated(Judge(), WITHOUT_REFERENCE, REFUSED)[0].splits


def test_where_isolation_is_required_no_completion_of_such_a_problem_has_a_reward() -> None:
    judge = Judge(require_isolated=True)
    found, _ = calibrated(judge, PROBLEM, FAILED, PASSED, FAILED)
    refused = judge.refusal(PROBLEM, found)
    assert refused is not None
    assert (refused.status, refused.trust) == (Status.NOT_ISOLATED, None)
    assert judge.refusal(PROBLEM, PLAIN) is None
    assert Judge().refusal(PROBLEM, found) is None


def test_no_completion_chooses_how_it_is_judged() -> None:
    for require_isolated in (False, True):
        judge = Judge(require_isolated=require_isolated)
        for problem in (PROBLEM, WITHOUT_REFERENCE):
            assert [judge.review(problem, verdict) for verdict in (PASSED, FAILED)] == [PASSED, FAILED]
            ruling = reviewed(REFUSED, judge, problem)
            assert (ruling.status, ruling.passed) == (Status.FAILED, 0)


@pytest.mark.parametrize("judge", [Judge(), Judge(require_isolated=True)])
@pytest.mark.parametrize("problem", [PROBLEM, WITHOUT_REFERENCE])
def test_a_problem_whose_own_code_fails_is_invalid_for_all(judge: Judge, problem: Problem) -> None:
    found, _ = calibrated(judge, problem, BROKEN)
    refused = judge.refusal(problem, found)
    assert refused is not None
    assert (refused.status, refused.trust, refused.detail) == (Status.INVALID_PROBLEM, None, BROKEN.detail)


def test_a_completion_that_breaks_the_setup_of_its_problem_has_crashed() -> None:
    ruling = reviewed(BROKEN)
    assert (ruling.status, ruling.passed) == (Status.CRASHED, 0)


def test_a_setup_that_takes_all_the_time_is_tried_twice() -> None:
    problem = Problem("t", "", cases=(Case("", "1"),), setup="while True: pass")
    assert calibrated(Judge(), problem, SLOW, SLOW)[0].invalid
    assert not calibrated(Judge(), problem, SLOW, FAILED)[0].invalid


def test_a_checker_that_fails_on_right_outputs_is_invalid_and_one_that_works_has_the_last_word() -> None:
    problem = Problem(
        "t", "", cases=(Case("", "1"),), checker=Checker("def check(input, expected, output): return True")
    )
    invalid = CheckVerdict(CheckStatus.INVALID, "the checker fails: ValueError")
    verdict = replace(BROKEN, detail="case 1 of 1: the checker fails: ValueError", checks=(invalid,))
    assert calibrated(Judge(), problem, verdict)[0].invalid == verdict.detail
    assert calibrated(Judge(), problem, PASSED)[0] == PLAIN
    ruling = reviewed(verdict, problem=problem)
    assert (ruling.status, ruling.checks[0].status) == (Status.FAILED, CheckStatus.FAILED)


MISSING = replace(FAILED, detail="ModuleNotFoundError: No module named 'numpy' (line 1)")


def test_a_module_that_a_problem_imports_and_sandboxes_lack_makes_it_invalid_and_is_looked_for_once() -> None:
    judge = Judge()
    problem = replace(PROBLEM, tests=("import math, numpy\nassert f() == 1",))
    assert "numpy" in calibrated(judge, problem, MISSING)[0].invalid
    assert "numpy" in calibrated(judge, replace(problem, task_id="other"))[0].invalid
    assert calibrated(Judge(), problem, PASSED, PASSED)[0] == PLAIN


def test_a_check_that_imports_later_what_sandboxes_lack_makes_its_problem_invalid() -> None:
    check = CheckVerdict(CheckStatus.FAILED, "ModuleNotFoundError: No module named 'pandas'")
    verdict = replace(FAILED, checks=(check,))
    assert "'pandas'" in calibrated(Judge(), WITHOUT_REFERENCE, verdict)[0].invalid
    by_reference = replace(PROBLEM, reference="import pandas\ndef f():\n    return 1\n")
    assert not calibrated(Judge(), by_reference, verdict, verdict)[0].invalid


def test_a_completion_that_imports_what_sandboxes_lack_is_told_what_to_do() -> None:
    ruling = reviewed(MISSING)
    assert ruling.status is Status.FAILED
    assert "the completion imports 'numpy'" in ruling.detail


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import numpy.linalg as la, math", ("numpy", "math")),
        ("from a.b import c\nif x:\n    import d\nwith y:\n    import e", ("a",)),
        ("try:\n    import a\nexcept ImportError:\n    a = None", ()),
        ("try:\n    import a\nfinally:\n    import b", ("a", "b")),
        ("if TYPE_CHECKING:\n    import a", ()),
        ("def test():\n    import a", ()),
        ("class Test:\n    import a", ("a",)),
        ("from solution import f\nfrom . import g", ()),
        ("import sys\nsys.modules['made'] = sys\nimport made.part, other", ("sys", "other")),
        ("open('/tmp/made.py', 'w').write('X = 1')\nimport made, other", ("other",)),
        ("patch.dict('sys.modules', {'made': mock})\nimport made, other", ("other",)),
        ("import (", ()),
    ],
)
def test_the_modules_of_a_problem_are_what_its_own_code_always_imports(text: str, expected: tuple[str, ...]) -> None:
    problem = Problem("t", "", check="exit_status", setup=text, files=(("helper.py", b""),))
    assert modules_of(problem) == expected
    assert modules_of(replace(problem, prelude="import helper")) == expected


def test_checks_that_import_a_file_of_the_problem_are_judged_with_the_completion() -> None:
    problem = replace(
        WITHOUT_REFERENCE, setup="", tests=("from helper import E\nassert f() == E",), files=(("helper.py", b""),)
    )
    known, _ = calibrated(Judge(), problem, FAILED)
    assert "'helper'" in known.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import math\nfrom typing import *\nN = 5\ndef f(a, b=1): return boom()", True),
        ("import numpy", False),
        ("x = boom()", False),
        ("def f(a=boom()): pass", False),
        ("@boom\ndef f(): pass", False),
        ("class A: boom()", False),
        ("(", False),
    ],
)
def test_a_setup_that_only_defines_needs_no_trial(text: str, expected: bool) -> None:
    assert is_inert(text) is expected
