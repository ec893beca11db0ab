"""The in-process judge: what it sends, and what it makes of what comes back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.support.judges import InProcessJudge, judge_outside

from sandrl.errors import InfrastructureError
from sandrl.events.results import Status, Trust
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge, judge_version
from sandrl.judge.limits import Limits
from sandrl.problems import Case, Problem, Tolerance
from sandrl.sandboxes import CommandOutcome

JUDGE = InProcessJudge()
TESTS = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
CASES = Problem("add", "Add.", cases=(Case("1 2\n", "3\n"), Case("4 5", "9")))
RUNS = Problem("runs", "Run.", check="exit_status")


judged = partial(judge_outside, JUDGE)


def test_a_right_answer_passes_all_checks() -> None:
    verdict = judged(TESTS, "def f(x):\n    return x + 1\n")
    assert (verdict.status, verdict.passed, verdict.total) == (Status.PASSED, 2, 2)
    assert verdict.trust is Trust.IN_PROCESS
    assert verdict.is_pass


@pytest.mark.parametrize(
    ("code", "status", "passed", "detail"),
    [
        ("def f(x):\n    return 2", Status.FAILED, 1, "check 2 of 2: AssertionError"),
        ("def f(x):\n    return 1 / 0", Status.FAILED, 0, "check 1 of 2: ZeroDivisionError: division by zero (line 2)"),
        ("def g(x):\n    return 1", Status.FAILED, 0, "check 1 of 2: NameError: name 'f' is not defined"),
        ("y = 1\nraise ValueError('no')", Status.FAILED, 0, "ValueError: no (line 2)"),
        ("def f(x) return 1", Status.SYNTAX_ERROR, 0, "SyntaxError: expected ':' (line 1)"),
        ("import os\nos._exit(0)", Status.CRASHED, 0, "it ended with exit status 0 before its checks were done"),
        ("raise MemoryError", Status.RESOURCE_LIMIT, 0, "MemoryError (line 1)"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(code: str, status: Status, passed: int, detail: str) -> None:
    verdict = judged(TESTS, code)
    assert (verdict.status, verdict.passed, verdict.detail) == (status, passed, detail)
    assert not verdict.is_pass


def test_a_null_byte_is_a_syntax_error_whatever_python_calls_it() -> None:
    verdict = judged(TESTS, "def f(x):\n    return '\0'")
    assert verdict.status is Status.SYNTAX_ERROR
    assert verdict.detail.endswith("source code string cannot contain null bytes")


def test_leaving_in_a_check_fails_that_check_only() -> None:
    verdict = judged(TESTS, "def f(x):\n    return x + 1 if x > 1 else exit(0)")
    assert (verdict.status, verdict.passed) == (Status.FAILED, 1)


def test_setup_runs_before_the_code() -> None:
    problem = replace(TESTS, setup="import math\nstep = 1")
    assert judged(problem, "def f(x):\n    return math.floor(x) + step").is_pass


def test_a_setup_that_needs_the_code_runs_after_it() -> None:
    problem = replace(TESTS, setup="root = Node(1)\nroot.next = Node(2)", tests=("assert f(root) == 2",))
    code = "class Node:\n    def __init__(self, x):\n        self.x = x\ndef f(node):\n    return node.next.x"
    assert judged(problem, code).is_pass
    verdict = judged(problem, "def f(node):\n    return 2")
    assert verdict.status is Status.FAILED
    assert verdict.detail == "the problem's setup fails with this completion: NameError: name 'Node' is not defined"


def test_a_class_of_the_setup_is_there_for_code_and_checks() -> None:
    setup = "class Node:\n    def __init__(self, x):\n        self.x = x"
    problem = replace(TESTS, setup=setup, tests=("assert type(f(Node(1))) is Node", "assert f(Node(1)).x == 2"))
    code = "start = Node(1)\ndef f(node):\n    return Node(node.x + start.x)"
    assert judged(problem, code).is_pass


@pytest.mark.parametrize("problem", [TESTS, CASES, RUNS], ids=["tests", "cases", "exit_status"])
def test_a_setup_that_fails_is_the_problems_fault_and_unscorable(problem: Problem) -> None:
    verdict = judged(replace(problem, setup="import no_such_module"), "def f(x):\n    return x + 1")
    assert verdict.status is Status.INVALID_PROBLEM
    assert not verdict.status.scorable
    assert "no_such_module" in verdict.detail


def test_cases_may_compare_numbers_within_a_tolerance() -> None:
    problem = replace(CASES, tolerance=Tolerance(absolute=0.01))
    code = "print(sum(map(int, input().split())) + 0.0001)"
    assert judged(problem, code).is_pass
    assert judged(CASES, code).passed == 0
    assert judged(problem, code.replace("0.0001", "0.02")).passed == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("{}\nprint()", Status.PASSED),
        ("import os\nassert 'seen' not in os.environ\nos.environ['seen'] = '1'\n{}", Status.PASSED),
        ("{}\nraise SystemExit(3)", Status.FAILED),
    ],
    ids=["blanks at the ends of lines do not count", "each has its own process", "exit status 0 is needed"],
)
def test_a_case_is_a_process_whose_lines_and_exit_status_count(code: str, status: Status) -> None:
    verdict = judged(CASES, code.format("print(sum(map(int, input().split())), '  ')"))
    assert (verdict.status, verdict.passed, verdict.total) == (status, 2 * (status is Status.PASSED), 2)


def test_the_first_case_that_fails_is_named_and_its_output_kept() -> None:
    verdict = judged(CASES, "x = input()\nprint(3)\nimport sys\nprint(x, file=sys.stderr)")
    assert (verdict.status, verdict.passed) == (Status.FAILED, 1)
    assert verdict.detail == "case 2 of 2: the output differs from the expected output"
    assert verdict.stderr == "4 5\n"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("print('fine')", Status.PASSED),
        ("raise SystemExit", Status.PASSED),
        ("raise SystemExit(3)", Status.FAILED),
        ("raise SystemExit('bad')", Status.FAILED),
        ("raise KeyError('x')", Status.FAILED),
    ],
)
def test_exit_status_is_all_that_counts_where_nothing_else_is_checked(code: str, status: Status) -> None:
    verdict = judged(RUNS, code)
    assert verdict.status is status
    assert verdict.trust is Trust.EXIT_STATUS
    assert verdict.total == 1


def test_the_clock_stops_code_that_catches_everything() -> None:
    code = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    verdict = judged(TESTS, code, Limits(timeout_seconds=0.3))
    assert (verdict.status, verdict.detail) == (Status.TIMEOUT, "it ran longer than 0.3 s")
    assert verdict.wall_seconds >= 0.3
    assert verdict.cpu_seconds > 0


def test_sleeping_takes_no_processor_time() -> None:
    verdict = judged(TESTS, "import time\ntime.sleep(60)", Limits(timeout_seconds=0.3))
    assert verdict.status is Status.TIMEOUT
    assert verdict.cpu_seconds < 0.2


def test_a_check_that_catches_the_end_of_its_time_has_not_passed() -> None:
    code = "import time\ndef f(x):\n    try: time.sleep(0.5)\n    except BaseException: pass\n    return x + 1"
    verdict = judged(TESTS, code, Limits(check_timeout_seconds=0.1))
    assert (verdict.status, verdict.passed) == (Status.TIMEOUT, 0)


def test_a_problem_s_own_limits_count_more() -> None:
    problem = replace(TESTS, timeout_seconds=0.2)
    assert judged(problem, "import time\ntime.sleep(60)").detail == "it ran longer than 0.2 s"
    problem, code = replace(TESTS, check_timeout_seconds=0.1), "import time\ndef f(x):\n    time.sleep(60)"
    assert judged(problem, code, Limits(check_timeout_seconds=50)).detail == "check 1 of 2: it ran longer than 0.1 s"


def test_output_is_cut_at_the_limit_and_counted_in_full() -> None:
    verdict = judged(TESTS, "print('x' * 5000)\ndef f(x):\n    return x + 1", Limits(max_output_bytes=1000))
    assert verdict.is_pass
    assert verdict.stdout == "x" * 1000
    assert (verdict.stdout_bytes, verdict.truncated) == (5001, True)


def test_a_flood_ends_at_the_largest_file() -> None:
    limits = Limits(max_output_bytes=1000, max_file_bytes=100_000)
    verdict = judged(TESTS, "while True:\n    print('x' * 1000)", limits)
    assert verdict.status is Status.RESOURCE_LIMIT
    assert verdict.stdout_bytes == 100_000


@pytest.mark.parametrize("child", ["import time\n    time.sleep(60)", "raise SystemExit"])
def test_a_completion_that_forks_is_judged_once_and_does_not_wait_for_its_child(child: str) -> None:
    assert judged(TESTS, f"import os\nif os.fork() == 0:\n    {child}\ndef f(x):\n    return x + 1").is_pass


def test_more_checks_than_a_pipe_holds_are_counted() -> None:
    problem = Problem("many", "", tests=("assert x",) * 40_000)
    verdict = judged(problem, "x = 1")
    assert (verdict.status, verdict.passed) == (Status.PASSED, 40_000)


def test_neither_code_nor_checks_are_in_the_arguments() -> None:
    execution = JUDGE.prepare(TESTS, "secret_code = 1", Limits())
    words = " ".join(execution.command.argv)
    assert "secret_code" not in words
    assert "assert f(1)" not in words
    assert execution.key not in words


def test_every_execution_has_a_key_of_its_own() -> None:
    first, second = (JUDGE.prepare(TESTS, "", Limits()) for _ in range(2))
    assert first.key != second.key
    assert first.key not in repr(first)


def prepared() -> Execution:
    return JUDGE.prepare(TESTS, "", Limits())


def line(
    execution: Execution,
    status: str = "passed",
    checks: str = "pp",
    details: str = "-",
    key: str | None = None,
    excerpts: str = "-",
) -> bytes:
    words = [key or execution.key, status, checks, 0.1, 0.1, 0.0, 0, 0, "-", details, 0.0, excerpts, 0]
    return b"\n" + " ".join(map(str, words)).encode() + b"\n"


def test_a_line_with_another_key_is_no_verdict() -> None:
    execution = prepared()
    verdict = JUDGE.interpret(execution, CommandOutcome("sb", 137, line(execution, key="0" * 32)))
    assert verdict.status is Status.CRASHED


def test_a_pass_needs_exit_status_0_and_exit_status_0_needs_a_pass() -> None:
    execution = prepared()
    assert JUDGE.interpret(execution, CommandOutcome("sb", 0, line(execution))).is_pass
    for outcome in (CommandOutcome("sb", 1, line(execution)), CommandOutcome("sb", 0, line(execution, "failed", "pf"))):
        with pytest.raises(InfrastructureError):
            JUDGE.interpret(execution, outcome)


@pytest.mark.parametrize(
    "excerpts", ["0:=61:=62:1:0:0", "1:=6:=62:1:0:0", "1:=61:=62:x:0:0", "9:=61:=62:1:0:0", "-1:=61:=62:1:0:0", "1:"]
)
def test_excerpts_that_no_guest_writes_make_the_line_no_verdict(excerpts: str) -> None:
    execution = prepared()
    outcome = CommandOutcome("sb", 1, line(execution, "failed", "pf", excerpts=excerpts))
    with pytest.raises(InfrastructureError):
        JUDGE.interpret(execution, outcome)


def test_excerpts_of_a_failed_check_are_read() -> None:
    execution = prepared()
    outcome = CommandOutcome("sb", 1, line(execution, "failed", "pf", excerpts="1:=61:=62:7:0:0"))
    check = JUDGE.interpret(execution, outcome).checks[1]
    assert (check.got, check.expected, check.line) == ("a", "b", 7)


@pytest.mark.parametrize("status", ["infrastructure", "not_isolated", "no_code", "nonsense"])
def test_the_guest_cannot_say_what_only_the_host_knows(status: str) -> None:
    execution = prepared()
    assert JUDGE.interpret(execution, CommandOutcome("sb", 1, line(execution, status, "ff"))).status is Status.CRASHED


@pytest.mark.parametrize("exit_code", [137, 139, 143, -9])
def test_a_judge_that_was_killed_was_killed_by_the_completion(exit_code: int) -> None:
    verdict = JUDGE.interpret(prepared(), CommandOutcome("sb", exit_code, b"", b"Killed"))
    assert (verdict.status, verdict.passed, verdict.total) == (Status.CRASHED, 0, 2)


@pytest.mark.parametrize("exit_code", [0, 1, 2, 126, 127])
def test_a_judge_that_ended_by_itself_without_a_verdict_is_not_the_codes_fault(exit_code: int) -> None:
    with pytest.raises(InfrastructureError, match="python: not found"):
        JUDGE.interpret(prepared(), CommandOutcome("sb", exit_code, b"", b"sh: python: not found\n"))


def test_the_services_own_timeout_is_a_timeout() -> None:
    verdict = JUDGE.interpret(prepared(), CommandOutcome("sb", None))
    assert verdict.status is Status.TIMEOUT


def test_the_version_is_that_of_the_guest() -> None:
    assert Judge().version == Judge(with_site_packages=True).version
    assert Judge(require_isolated=True).version == f"isolated-required-{judge_version()}"
