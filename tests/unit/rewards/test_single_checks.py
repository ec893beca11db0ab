"""What is said of single checks: by every way of judging, and that it is the numbers' own account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support.judges import InProcessJudge, judge_outside

from sandrl.errors import InfrastructureError
from sandrl.events.results import CheckStatus, CheckVerdict, Status, Trust
from sandrl.judge.judge import Judge
from sandrl.judge.limits import MOST_SECONDS, Limits, time_limit
from sandrl.judge.verdict import Verdict
from sandrl.problems import EXIT_STATUS, Call, Case, Completion, Problem
from sandrl.sandboxes import CommandOutcome
from sandrl.scoring.policies import fraction

JUDGES = [
    pytest.param(Judge(), id="isolated"),
    pytest.param(InProcessJudge(), id="in process"),
]
TESTS = Problem("inc", "Add one.", tests=tuple(f"assert f({x}) == {x + 1}" for x in range(4)))
CASES = Problem("inc", "Add one.", cases=tuple(Case(f"{x}\n", f"{x + 1}\n") for x in range(4)))
ANSWER = Completion("1", "inc", completion="def f(x): return x + 1")
RUNS = Problem("runs", "Run.", check=EXIT_STATUS)

DIES = "import os\ndef f(x):\n    return x + 1 if x < 2 else os._exit(3)"
HANGS = "import time\ndef f(x):\n    if x == 2:\n        time.sleep(60)\n    return x + 1"


def judged(problem: Problem, code: str, judge: Judge | None = None, limits: Limits | None = None) -> Verdict:
    return judge_outside(judge or InProcessJudge(), problem, code, limits or Limits(timeout_seconds=10))


def words(verdict: Verdict) -> str:
    """One letter for each check."""
    return "".join(check.status.value[0] for check in verdict.checks)


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize(
    ("code", "status", "checks", "details"),
    [
        ("def f(x):\n    return x + 1", Status.PASSED, "pppp", ["", "", "", ""]),
        (
            "def f(x):\n    return x + 1 if x != 1 else 1 // 0",
            Status.FAILED,
            "pfpp",
            ["", "ZeroDivisionError: integer division or modulo by zero (line 2)", "", ""],
        ),
        ("def f(x):\n    return 1", Status.FAILED, "pfff", ["", *["AssertionError"] * 3]),
        (
            "def f(x):\n    if x == 2:\n        raise MemoryError\n    return x + 1",
            Status.RESOURCE_LIMIT,
            "ppfp",
            ["", "", "MemoryError (line 3)", ""],
        ),
        ("def f(x) return 1", Status.SYNTAX_ERROR, "nnnn", [""] * 4),
        ("raise ValueError('no')", Status.FAILED, "nnnn", [""] * 4),
    ],
)
def test_each_check_has_a_verdict(judge: Judge, code: str, status: Status, checks: str, details: Sequence[str]) -> None:
    verdict = judged(TESTS, code, judge)
    assert (verdict.status, words(verdict)) == (status, checks)
    assert [check.detail for check in verdict.checks] == details
    assert (verdict.passed, verdict.total) == (checks.count("p"), 4)


@pytest.mark.parametrize("judge", JUDGES)
def test_a_check_that_takes_too_long_leaves_the_others_their_verdicts(judge: Judge) -> None:
    verdict = judged(TESTS, HANGS, judge, Limits(timeout_seconds=30, check_timeout_seconds=1.5))
    assert (verdict.status, words(verdict)) == (Status.TIMEOUT, "pptp")
    assert verdict.checks[2].detail == "it ran longer than 1.5 s"
    assert fraction(verdict, ANSWER) == 3 / 4


@pytest.mark.parametrize("judge", JUDGES)
def test_of_code_that_takes_all_of_its_time_nothing_counts(judge: Judge) -> None:
    verdict = judged(TESTS, HANGS, judge, Limits(timeout_seconds=3))
    assert (verdict.status, words(verdict)) == (Status.TIMEOUT, "uutn")
    assert (verdict.passed, fraction(verdict, ANSWER)) == (0, 0.0)


def test_code_that_dies_in_a_check_fails_it_and_reaches_no_other() -> None:
    detail = "it ended with exit status 3 before its checks were done"
    apart, together = judged(TESTS, DIES, Judge()), judged(TESTS, DIES, InProcessJudge())
    assert (words(apart), words(together)) == ("uufn", "ppfn")
    for verdict in (apart, together):
        assert (verdict.status, verdict.detail) == (Status.CRASHED, detail)
        assert verdict.checks[2].detail == detail
        assert fraction(verdict, ANSWER) == 0.0


def test_cases_have_a_verdict_each() -> None:
    verdict = judged(CASES, "x = int(input())\nprint(x if x == 1 else x + 1 if x != 3 else 1 // 0)")
    assert (verdict.status, words(verdict)) == (Status.FAILED, "pfpf")
    assert verdict.checks[1].detail == "the output differs from the expected output"
    assert verdict.checks[3].detail.startswith("ZeroDivisionError")
    hangs = "import time\nx = int(input())\ntime.sleep(60 * (x == 2))\nprint(x + 1)"
    assert words(judged(CASES, hangs, limits=Limits(timeout_seconds=4))) == "uutn"
    verdict = judged(CASES, hangs, limits=Limits(timeout_seconds=30, check_timeout_seconds=2))
    assert (words(verdict), verdict.detail) == ("pptp", "case 3 of 4: it ran longer than 2 s")
    assert words(judged(CASES, "print(")) == "fnnn"


def test_cases_and_calls_after_one_that_failed_are_left_out_where_that_is_asked() -> None:
    limits = Limits(stops_at_failure=True)
    verdict = judged(CASES, "x = int(input())\nprint(x if x == 1 else x + 1)", limits=limits)
    assert [check.status for check in verdict.checks] == [
        CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.NOT_RUN, CheckStatus.NOT_RUN,
    ]  # fmt: skip
    assert (verdict.status, verdict.passed, verdict.total) == (Status.FAILED, 1, 4)
    assert verdict.detail == "case 2 of 4: the output differs from the expected output"
    calls = replace(TESTS, tests=(), fn="f", calls=tuple(Call.of([x], x + 1) for x in range(4)))
    wrong = "def f(x):\n    return x + 1 if x < 2 else 0"
    for left_out, status in ((limits, CheckStatus.NOT_RUN), (Limits(), CheckStatus.FAILED)):
        verdict = judged(calls, wrong, Judge(), left_out)
        assert [check.status for check in verdict.checks[1:]] == [CheckStatus.PASSED, CheckStatus.FAILED, status]
        assert verdict.passed == 2
    # Tests may build on one another, and code that does not compile reaches no check.
    assert words(judged(TESTS, "def f(x):\n    return 1", limits=limits)) == "pfff"
    assert {check.status for check in judged(CASES, "print(", limits=limits).checks[1:]} == {CheckStatus.NOT_REACHED}


def test_right_code_is_not_out_of_time_for_the_number_of_its_cases() -> None:
    slow = "import time\ntime.sleep(0.4)\nprint(int(input()) + 1)"
    assert judged(CASES, slow, limits=Limits(timeout_seconds=1.0)).status is Status.TIMEOUT
    assert judged(CASES, slow, limits=Limits(timeout_seconds=1.0, is_extended=True)).is_pass
    calls = replace(TESTS, tests=(), fn="f", calls=tuple(Call.of([x], x + 1) for x in range(4)))
    slow = "import time\ndef f(x):\n    time.sleep(0.4)\n    return x + 1"
    assert judged(calls, slow, Judge(), Limits(timeout_seconds=1.0)).status is Status.TIMEOUT
    assert judged(calls, slow, Judge(), Limits(timeout_seconds=1.0, is_extended=True)).is_pass


def test_code_that_fails_its_cases_has_no_more_time_for_their_number() -> None:
    cases = replace(CASES, cases=CASES.cases * 10)
    hangs = "import time\ntime.sleep(0.4)\nprint(0)"
    verdict = judged(cases, hangs, limits=Limits(timeout_seconds=1.0, is_extended=True))
    assert (verdict.status, words(verdict).count("t")) == (Status.FAILED, 1)
    limit = time_limit(cases, Limits(is_extended=True))
    assert (limit.seconds, limit.free_seconds, limit.most_seconds) == (10.0, 2.0, 90.0)
    limit = time_limit(replace(cases, check_timeout_seconds=20.0), Limits(is_extended=True))
    assert (limit.seconds, limit.free_seconds, limit.most_seconds) == (20.0, 20.0, MOST_SECONDS)
    for exact in (Limits(), Limits(timeout_seconds=400.0)):
        limit = time_limit(cases, exact)
        assert (limit.free_seconds, limit.most_seconds) == (0.0, exact.timeout_seconds)
    assert time_limit(replace(cases, timeout_seconds=3.0), Limits(is_extended=True)).most_seconds == 3.0


def test_the_comparing_process_answers_for_the_case_that_is_asked_about() -> None:
    """Outputs of any size and content cross to it, and what a program leaves open does no harm."""
    texts = ["", "x" * 200_000, "\0\n1 2\n", "é\n" * 30_000, "last"]
    cases = tuple(Case(f"{number}\n", text) for number, text in enumerate(texts))
    code = f"print({texts!r}[int(input())], end='')"
    problem = Problem("texts", "Print.", cases=cases)
    assert judged(problem, code).is_pass
    swapped = replace(problem, cases=(*cases[:3], replace(cases[3], stdout=texts[1]), cases[4]))
    assert words(judged(swapped, code)) == "pppfp"


def test_a_program_that_is_a_check_itself_has_one_verdict() -> None:
    assert words(judged(RUNS, "print(1)")) == "p"
    verdict = judged(RUNS, "raise SystemExit(3)")
    assert verdict.checks == (CheckVerdict(CheckStatus.FAILED, "it exited with status 3"),)
    assert words(judged(replace(RUNS, setup="1 // 0"), "print(1)")) == "n"


@pytest.mark.parametrize("judge", JUDGES)
def test_a_thousand_checks_that_fail_at_length_are_told_briefly(judge: Judge) -> None:
    problem = Problem("many", "", tests=tuple(f"assert f({x}) == {x}" for x in range(1000)))
    verdict = judged(problem, "def f(x):\n    raise ValueError('\U0001f600' * 1000)", judge, Limits(timeout_seconds=60))
    assert (verdict.status, verdict.passed, verdict.total) == (Status.FAILED, 0, 1000)
    assert words(verdict) == "f" * 1000
    assert max(len(check.detail) for check in verdict.checks) == 200
    assert sum(len(check.detail) for check in verdict.checks) == 20_000


def test_what_a_completion_says_of_itself_in_a_check_is_text() -> None:
    hostile = "\\x1b]0;owned\\x07 <script> , 2:70 \\ud83d"
    verdict = judged(TESTS, f"def f(x):\n    raise ValueError('{hostile}')", Judge())
    assert words(verdict) == "ffff"
    assert verdict.checks[0].detail == "ValueError: \x1b]0;owned\x07 <script> , 2:70 \\ud83d (line 2)"


@pytest.mark.parametrize(
    "said",
    [
        "c\\n" + "p\\n" * 5 + "end passed \\n",
        "c\\n" + "p\\n" * 3 + "end passed \\n",
        "p zz\\n" * 4 + "end passed \\n",
        "end passed zz\\n",
        "p\\n" * 1000 + "c",
        "c",
        "end",
    ],
)
def test_a_forged_report_that_does_not_add_up_is_the_codes_fault(said: str) -> None:
    code = (
        "import os\n"
        "for number in range(3, 30):\n"
        f"    try: os.write(number, b'{said}')\n"
        "    except OSError: pass\n"
        "os._exit(0)"
    )
    verdict = judged(TESTS, code)
    assert verdict.status is Status.CRASHED
    assert verdict.detail == "its report cannot be read" or said != "end passed zz\\n"
    assert "p" not in words(verdict) or fraction(verdict, ANSWER) == 0.0


def test_text_of_an_object_of_the_completions_is_asked_for_on_the_clock() -> None:
    problem = replace(TESTS, tests=("assert f(0) == 1, f(0)", "assert f(1) == 2"))
    code = "import time\nclass A:\n    def __str__(self):\n        time.sleep(60)\ndef f(x):\n    return A()"
    verdict = judged(problem, code, Judge(), Limits(timeout_seconds=3))
    assert (verdict.status, words(verdict)) == (Status.TIMEOUT, "tn")
    limits = Limits(timeout_seconds=30, check_timeout_seconds=1.5)
    assert words(judged(problem, code, Judge(), limits)) == "tf"


def line(checks: str, details: str = "-", status: str = "failed") -> Verdict:
    """What the host makes of a judge's line about `TESTS`."""
    judge = InProcessJudge()
    execution = judge.prepare(TESTS, "", Limits())
    said = f"\n{execution.key} {status} {checks} 0.1 0.1 0.0 0 0 - {details} 0.0 - 0\n".encode()
    return judge.interpret(execution, CommandOutcome("sb", 0 if status == "passed" else 1, said))


def test_the_numbers_are_counted_from_the_checks() -> None:
    verdict = line("ptfn", f"1:{b'slow'.hex()},2:{b'wrong'.hex()}")
    assert (verdict.passed, verdict.total) == (1, 4)
    assert [check.detail for check in verdict.checks] == ["", "slow", "wrong", ""]
    assert line("pppp", status="passed").is_pass


@pytest.mark.parametrize(
    ("checks", "details"),
    [("ppp", "-"), ("ppppp", "-"), ("pppx", "-"), ("-", "-"), ("ffff", "4:70"), ("ffff", "-1:70"), ("ffff", "0:zz")],
)
def test_a_line_whose_checks_are_not_those_of_the_problem_is_no_verdict(checks: str, details: str) -> None:
    with pytest.raises(InfrastructureError):
        line(checks, details)


def test_a_pass_needs_every_check() -> None:
    with pytest.raises(InfrastructureError):
        line("pppf", status="passed")


def test_a_verdict_that_contradicts_its_checks_cannot_be_made() -> None:
    passed, failed = CheckVerdict(CheckStatus.PASSED), CheckVerdict(CheckStatus.FAILED)
    assert Verdict(Status.FAILED, Trust.ISOLATED, 1, 2, checks=(passed, failed)).checks[1] is failed
    for numbers in ((2, 2), (1, 3)):
        with pytest.raises(ValueError, match="1 of 2 checks have passed"):
            Verdict(Status.FAILED, Trust.ISOLATED, *numbers, checks=(passed, failed))


def test_nothing_said_of_checks_counts_where_the_problem_was_blamed_without_reason() -> None:
    judge = InProcessJudge()
    checks = (CheckVerdict(CheckStatus.PASSED), *[CheckVerdict(CheckStatus.NOT_REACHED)] * 3)
    ruling = judge.review(TESTS, Verdict(Status.INVALID_PROBLEM, Trust.IN_PROCESS, 1, 4, checks=checks))
    assert isinstance(ruling, Verdict)
    assert (ruling.status, ruling.passed, ruling.checks) == (Status.CRASHED, 0, ())
