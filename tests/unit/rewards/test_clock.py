"""The clock of the judge: what counts of the time that passes, and what does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.support.judges import InProcessJudge, judge_outside
from tests.support.outside import outside

from sandrl.events.results import Status
from sandrl.judge.guest import clock
from sandrl.judge.guest.clock import LONGEST, Limit
from sandrl.judge.judge import Judge, longest_run_seconds
from sandrl.judge.limits import Limits
from sandrl.judge.verdict import Verdict
from sandrl.problems import Case, Problem

TESTS = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
CASES = Problem("inc", "Add one.", cases=tuple(Case(f"{x}\n", f"{x + 1}\n") for x in range(3)))
JUDGES = [pytest.param(Judge(), id="isolated"), pytest.param(InProcessJudge(), id="in process")]
SPIN = "import time\ndef spin(s):\n    t = time.process_time()\n    while time.process_time() - t < s: pass\n"


def judged(problem: Problem, code: str, judge: Judge, limits: Limits) -> Verdict:
    return judge_outside(judge, problem, code, limits)


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
@pytest.mark.parametrize(
    ("code", "limits"),
    [
        ("spin(0.1)\ndef f(x):\n    return x + 1\n", Limits(timeout_seconds=1.0)),
        ("def f(x):\n    spin(0.05)\n    return x + 1\n", Limits(timeout_seconds=20.0, check_timeout_seconds=0.4)),
    ],
    ids=["completion", "check"],
)
def test_time_spent_waiting_for_a_processor_does_not_count(judge: Judge, code: str, limits: Limits) -> None:
    with scarce_processor():
        verdict = judged(TESTS, SPIN + code, judge, limits)
    assert verdict.is_pass, verdict
    assert verdict.wall_seconds - verdict.starved_seconds <= limits.timeout_seconds


def test_nor_for_the_cases_of_a_program_together() -> None:
    code = SPIN + "spin(0.05)\nprint(int(input()) + 1)\n"
    with scarce_processor():
        verdict = judged(CASES, code, InProcessJudge(), Limits(timeout_seconds=1.2))
    assert verdict.is_pass, verdict


@pytest.mark.parametrize("code", ["import time\ntime.sleep(60)", "while True: pass"])
def test_a_program_that_sleeps_or_never_ends_is_late_however_scarce_processors_are(code: str) -> None:
    with scarce_processor():
        verdict = judged(TESTS, code, Judge(), Limits(timeout_seconds=0.5))
    assert (verdict.status, verdict.passed) == (Status.TIMEOUT, 0)


def stat(worked: int, stolen: int) -> bytes:
    """What /proc/stat says of a machine whose processors have worked, and lost, so many ticks."""
    return f"cpu  {worked} 0 0 5000 70 0 0 {stolen} 9 9\ncpu0 1 0 0 0 0 0 0 0 0 0\n".encode()


def test_time_that_the_host_took_from_a_running_completion_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter((stat(1000, 40), stat(1100, 340)))
    read = clock.read_start
    monkeypatch.setattr(clock, "read_start", lambda path: next(texts) if path == "/proc/stat" else read(path))
    account = clock.Account(0)
    account.look()
    before, ends_at = account.cpu, time.process_time() + 0.2
    while time.process_time() < ends_at:
        pass
    account.look()
    ran = account.cpu - before
    assert ran > 0.15
    assert account.stolen == pytest.approx(3.0 * ran), "three ticks were taken for each that the machine worked"


@pytest.mark.parametrize(
    "texts",
    [
        (b"", b""),
        (b"cpu  1 2 3 4\n", b"cpu  9 9 9 9\n"),
        (stat(1000, 40), stat(1000, 90)),
        (stat(1000, 40), stat(1100, 30)),
    ],
    ids=["no file", "an old kernel", "nothing ran", "a counter went back"],
)
def test_where_the_kernel_does_not_say_what_was_taken_nothing_was(
    monkeypatch: pytest.MonkeyPatch, texts: tuple[bytes, bytes]
) -> None:
    account, read = clock.Account(0), iter(texts)
    monkeypatch.setattr(clock, "read_start", lambda path: next(read))
    for account.cpu in (1.0, 2.0):
        account.count_stolen()
    assert account.stolen == 0.0


def test_what_was_waited_is_left_to_run() -> None:
    limit = Limit(10.0)
    assert limit.left(4.0, cpu=4.0) == 6.0
    limit.excused = 7.0
    assert limit.left(10.0, cpu=3.0) == 7.0


@contextmanager
def a_watch(monkeypatch: pytest.MonkeyPatch, now: list[float], looks: list[float]) -> Iterator[clock.Clock]:
    """A clock of a completion that notes when it looks at the account."""

    def look(account: clock.Account) -> float:
        looks.append(now[0])
        return 0.0

    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock.Account, "look", look)
    yield clock.Clock(60.0, os.getpid())
    signal.setitimer(signal.ITIMER_REAL, 0)


def test_a_hundred_quick_checks_with_a_limit_look_at_the_account_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now, looks = [100.0], list[float]()
    with a_watch(monkeypatch, now, looks) as watch:
        for _ in range(100):
            watch.start(4.0)
            now[0] += 0.0004
            watch.stop()
    assert len(looks) == 1


@pytest.mark.parametrize(("limit", "oldest"), [(0.1, 0.005), (0.5, 0.025), (1.0, 0.05), (10.0, 0.05)])
def test_the_account_is_never_older_than_a_share_of_the_limit_of_a_check(
    monkeypatch: pytest.MonkeyPatch, limit: float, oldest: float
) -> None:
    now, looks = [100.0], list[float]()
    with a_watch(monkeypatch, now, looks) as watch:
        for _ in range(200):
            watch.start(limit)
            assert now[0] - looks[-1] < oldest
            now[0] += 0.001
            watch.stop()


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


def test_a_long_step_of_the_judge_is_no_stop() -> None:
    problem = replace(TESTS, tests=("expected = sum(range(150_000_000))\nassert f(1) == expected",))
    execution = Judge().prepare(problem, "def f(x):\n    return x\n", Limits())
    argv = outside(execution.command.argv)
    done = subprocess.run(argv, input=execution.command.input, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1, "it would be judged again"
