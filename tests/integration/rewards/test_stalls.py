"""Client and runtime stand still in the middle of a run, and right code stays right; nobody buys time by it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks import stops

from sandrl.events import CompletionFinished, Emit, Event, RetryScheduled, ignore
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge import guest_command
from sandrl.judge.limits import Limits
from sandrl.problems import Completion, Problem
from sandrl.rewards import ScoreOptions, score
from sandrl.runtime import daemon
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings

pytestmark = pytest.mark.alone

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
RIGHT = "def f(x):\n    return x + 1\n"
SPIN = "import time\nt = time.process_time()\nwhile time.process_time() - t < {}: pass\n" + RIGHT


def scored(job: Job, codes: list[str], emit: Emit = ignore, **limits: float) -> list[ScoredCompletion]:
    completions = [Completion(str(number), "inc", code=f"# {number}\n{code}") for number, code in enumerate(codes)]
    options = ScoreOptions(limits=Limits(**limits), concurrency=4, backoff_seconds=0.01)  # type: ignore[arg-type]
    return list(score(completions, {"inc": INC}, job=job, options=options, emit=emit).results)


@contextmanager
def standing_still(pid: int, seconds: float) -> Iterator[Emit]:
    """Stops a process for a while as soon as the events that the block emits say that a completion is finished."""
    has_begun = threading.Event()

    def work() -> None:
        has_begun.wait()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)

    def emit(event: Event) -> None:
        if isinstance(event, CompletionFinished):
            has_begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield emit
    finally:
        has_begun.set()
        thread.join()


def test_a_runtime_that_stands_still_makes_no_right_answer_wrong(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest_command, "_GRACE_SECONDS", 1.0)
    connection = connect(settings, runtime=RuntimeKind.LOCAL)
    endpoint = daemon.find(settings.state_dir)
    assert endpoint is not None
    with (
        Job(connection, job_id=new_job_id(), max_lifetime_seconds=60) as job,
        standing_still(endpoint.pid, seconds=4.5) as emit,
    ):
        results = scored(job, ["import time\ntime.sleep(0.2)\n" + RIGHT] * 40, emit, timeout_seconds=0.5)
    assert [result for result in results if result.reward != 1.0] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("concurrency", [4, 16])
@pytest.mark.parametrize("timeout_seconds", [2, 10])
@pytest.mark.parametrize("stall_seconds", [13, 20, 75])
@pytest.mark.parametrize("who", ["client", "runtime", "both"])
def test_a_stall_at_a_random_moment_changes_no_reward(
    tmp_path: Path, who: str, stall_seconds: int, timeout_seconds: int, concurrency: int
) -> None:
    state = tmp_path / "state"
    environment = {**os.environ, "SANDRL_STATE_DIR": str(state), "SANDRL_RUNS_DIR": str(tmp_path / "runs")}
    settings = Settings.from_environment(environment)
    connect(settings, runtime=RuntimeKind.LOCAL)
    endpoint = daemon.find(settings.state_dir)
    assert endpoint is not None
    problems, answers = tmp_path / "p.jsonl", tmp_path / "c.jsonl"
    problems.write_text(json.dumps({"task_id": "inc", "prompt": "", "tests": list(INC.tests)}) + "\n")
    codes = [f"# {number}\nimport time\ntime.sleep({number % 4 / 5})\n{RIGHT}" for number in range(80)]
    answers.write_text("".join(json.dumps({"task_id": "inc", "code": code}) + "\n" for code in codes))
    words = ["reward", str(answers), "--problems", str(problems), "--runtime", "local", "--json"]
    words += ["--concurrency", str(concurrency), "--timeout", str(timeout_seconds)]
    try:
        client = subprocess.Popen([sys.executable, "-m", "sandrl", *words], env=environment, stdout=subprocess.PIPE)
        stopped = {"client": [client.pid], "runtime": [endpoint.pid], "both": [client.pid, endpoint.pid]}[who]
        wait_for_sandboxes(tmp_path / "runs")
        time.sleep(random.uniform(0.0, 2.5))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(stall_seconds)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        printed, _ = client.communicate(timeout=300)
    finally:
        daemon.stop(settings.state_dir)
    assert {result["reward"] for result in json.loads(printed)["results"]} == {1.0}
    assert client.returncode == 0


def wait_for_sandboxes(runs: Path) -> None:
    """Returns once the run has asked for its first sandbox."""
    deadline = time.monotonic() + 60
    while not any(ledger.stat().st_size for ledger in runs.glob("*/sandboxes.jsonl")):
        assert time.monotonic() < deadline, "the run does not begin"
        time.sleep(0.05)


BUYERS = {
    "nothing": "",
    "processes": "import os\nfor _ in range(4):\n    if os.fork() == 0:\n        while True: pass\n",
    "threads": (
        "import threading\ndef work():\n    while True: pass\n"
        "for _ in range(8): threading.Thread(target=work, daemon=True).start()\n"
    ),
    "stops its judge": (
        "import os, signal, time\njudge = os.getppid()\n"
        "if os.fork() == 0:\n    time.sleep(3)\n    os.kill(judge, signal.SIGCONT)\n    os._exit(0)\n"
        "os.kill(judge, signal.SIGSTOP)\ntime.sleep(2.9)\n"
    ),
    "stops its judge often": (
        "import os, signal, time\njudge = os.getppid()\n"
        "if os.fork() == 0:\n"
        "    for _ in range(3):\n"
        "        os.kill(judge, signal.SIGSTOP)\n        time.sleep(1.2)\n"
        "        os.kill(judge, signal.SIGCONT)\n        time.sleep(0.01)\n"
        "    os._exit(0)\n"
        "time.sleep(3)\n"
    ),
}


# A process of the completion stops its judge, and continues it in a way that seems to come from outside.
STOPPER = """
import ctypes, os, signal, time
libc, judge = ctypes.CDLL(None), os.getppid()
def forge(pid, user):
    sent = (ctypes.c_int * 32)(signal.SIGCONT, 0, -1, 0, pid, user)
    libc.syscall(129 if os.uname().machine == "x86_64" else 138, judge, signal.SIGCONT, sent)
def flood():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    while libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0:
        pass
    libc.sigqueue(judge, signal.SIGCONT, None)
if os.fork() == 0:
    time.sleep(3)
    {how}
    time.sleep(9)
os.kill(judge, signal.SIGSTOP)
time.sleep(2.9)
"""


HOWS = ("os.kill(judge, signal.SIGCONT)", "forge(0, 65534)", "forge(0, 0)", "flood()")
LATE = {name: buyer + SPIN.format(1.5) for name, buyer in BUYERS.items()}
LATE |= {how: STOPPER.format(how=how) + RIGHT for how in HOWS}


@pytest.mark.parametrize("code", LATE.values(), ids=LATE)
def test_neither_processor_time_nor_time_to_wait_can_be_bought(job: Job, code: str) -> None:
    [result] = scored(job, [code], timeout_seconds=1.0)
    assert (result.status, result.reward) == (Status.TIMEOUT, 0.0), result


def test_a_completion_that_stops_itself_runs_again_and_is_late(job: Job, has_cells: bool) -> None:
    events: list[Event] = []
    codes = ["import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n" + RIGHT]
    [result] = scored(job, codes, events.append, timeout_seconds=0.5)
    assert (result.status, result.reward) == (Status.TIMEOUT, 0.0), result
    assert sum(isinstance(event, RetryScheduled) for event in events) == 2


def test_a_wrong_answer_is_not_tried_again_for_a_stopped_child(job: Job) -> None:
    events: list[Event] = []
    stopped = "import os, signal, subprocess, time\nos.kill(subprocess.Popen(['sleep', '9']).pid, signal.SIGSTOP)\n"
    [result] = scored(job, [stopped + "time.sleep(1.2)\ndef f(x):\n    return 0\n"], events.append)
    assert (result.status, result.reward) == (Status.FAILED, 0.0), result
    assert not any(isinstance(event, RetryScheduled) for event in events)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", stops.MODES)
@pytest.mark.parametrize("seconds", [6, 22])
@pytest.mark.parametrize("name", stops.SETS)
def test_a_stop_from_outside_costs_no_right_completion_of_any_kind_its_reward(
    name: str, seconds: int, mode: str
) -> None:
    if (name, mode) == ("workers", "fresh"):
        pytest.skip("there are none")
    assert stops.stop_while_scoring(name, mode, seconds, copies=1) == []


def test_many_at_once_wait_for_a_processor_and_pass(job: Job) -> None:
    codes = [SPIN.format(0.15)] * (8 * (os.cpu_count() or 1))
    completions = [Completion(str(number), "inc", code=f"# {number}\n{code}") for number, code in enumerate(codes)]
    options = ScoreOptions(limits=Limits(timeout_seconds=1.0), concurrency=len(codes))
    results = score(completions, {"inc": INC}, job=job, options=options).results
    assert {result.reward for result in results} == {1.0}, [(each.detail, each.cpu_seconds) for each in results]
