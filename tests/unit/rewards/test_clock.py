"""The clock of the judge: what counts of the time that passes, and what does not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandrl.events.results import Status
from sandrl.problems import Case, Problem
from sandrl.rewards.guest.clock import LONGEST, Limit
from sandrl.rewards.judge import InProcessJudge, IsolatedJudge, Limits, longest_run_seconds
from sandrl.rewards.verdict import Verdict
from sandrl.sandboxes import CommandOutcome

TESTS = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
CASES = Problem("inc", "Add one.", cases=tuple(Case(f"{x}\n", f"{x + 1}\n") for x in range(3)))
JUDGES = [pytest.param(IsolatedJudge(), id="isolated"), pytest.param(InProcessJudge(), id="in process")]
SPIN = "import time\ndef spin(s):\n    t = time.process_time()\n    while time.process_time() - t < s: pass\n"


def judged(problem: Problem, code: str, judge: InProcessJudge, limits: Limits) -> Verdict:
    """Judges trusted code without a sandbox."""
    execution = judge.prepare(problem, code, limits)
    argv = (sys.executable, *execution.command.argv[1:])
    done = subprocess.run(argv, input=execution.command.stdin, capture_output=True, timeout=60, check=False)
    return judge.interpret(execution, CommandOutcome("sb", done.returncode, done.stdout, done.stderr))


@contextmanager
def scarce_processor() -> Iterator[None]:
    """Has this process and what it starts share one processor with eleven others that want all of it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(11)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for other in others:
            other.kill()
            other.wait()


@pytest.mark.parametrize("judge", JUDGES)
def test_time_spent_waiting_for_a_processor_does_not_count(judge: InProcessJudge) -> None:
    code = SPIN + "spin(0.1)\ndef f(x):\n    return x + 1\n"
    with scarce_processor():
        verdict = judged(TESTS, code, judge, Limits(timeout_seconds=1.0))
    assert verdict.is_pass, verdict
    assert verdict.wall_seconds - verdict.starved_seconds <= 1.0


@pytest.mark.parametrize("judge", JUDGES)
def test_nor_does_it_count_for_a_single_check(judge: InProcessJudge) -> None:
    code = SPIN + "def f(x):\n    spin(0.05)\n    return x + 1\n"
    with scarce_processor():
        verdict = judged(TESTS, code, judge, Limits(timeout_seconds=20.0, check_timeout_seconds=0.4))
    assert verdict.is_pass, verdict


def test_nor_for_the_cases_of_a_program_together() -> None:
    code = SPIN + "spin(0.05)\nprint(int(input()) + 1)\n"
    with scarce_processor():
        verdict = judged(CASES, code, InProcessJudge(), Limits(timeout_seconds=1.2))
    assert verdict.is_pass, verdict


def test_a_program_that_only_sleeps_has_waited_for_no_processor() -> None:
    with scarce_processor():
        verdict = judged(TESTS, "import time\ntime.sleep(60)", IsolatedJudge(), Limits(timeout_seconds=0.5))
    assert verdict.status is Status.TIMEOUT


def test_an_endless_loop_ends_however_scarce_processors_are() -> None:
    with scarce_processor():
        verdict = judged(TESTS, "while True: pass", IsolatedJudge(), Limits(timeout_seconds=0.5))
    assert (verdict.status, verdict.passed) == (Status.TIMEOUT, 0)


def test_what_was_waited_is_left_to_run() -> None:
    limit = Limit(10.0)
    assert limit.left(4.0, cpu=4.0) == 6.0
    limit.excused = 7.0
    assert limit.left(10.0, cpu=3.0) == 7.0


def test_processor_time_counts_even_while_other_threads_wait() -> None:
    limit = Limit(10.0)
    limit.excused = 10.0
    assert limit.left(10.0, cpu=10.0) <= 0
    assert limit.left(9.0, cpu=18.0) == 1.0, "several processors may be used for all of the limit by the clock"


def test_nothing_is_left_after_the_longest_time_but_what_was_frozen() -> None:
    limit = Limit(10.0)
    limit.excused = 1000.0
    assert limit.left(10.0 * LONGEST, cpu=0.0) == 0.0
    limit.frozen = 5.0
    assert limit.left(10.0 * LONGEST, cpu=0.0) > 0


def test_the_runtime_leaves_the_judge_the_longest_time() -> None:
    command = InProcessJudge().prepare(TESTS, "pass", Limits(timeout_seconds=3.0)).command
    assert command.timeout_seconds == longest_run_seconds(3.0) > 3.0 * LONGEST
