"""Sandboxes created ahead of what will run in them: as fresh, as well accounted for, and never left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

import sandrl
from sandrl.events import Emit, Event, RetryScheduled, Warned, ignore
from sandrl.problems import Problem
from sandrl.runs import WARM_TAG
from sandrl.sandboxes import Command, Connection, Interrupt, Job, Launch, connect, new_job_id
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.providers.protocol import SandboxInfo
from sandrl.sandboxes.session import BEAT_SECONDS
from sandrl.settings import RuntimeKind, Settings
from tests.support.dead_daemon import kill_daemon
from tests.support.lines import Lines

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
RIGHT = "<answer>def f(x):\n    return x + {0} - {0} + 1</answer>"
# Says how much it found, and leaves something behind.
MARK = Command(("python", "-c", "import os; print(len(os.listdir('/tmp'))); open('/tmp/mark', 'w').close()"))


def a_job(
    connection: Connection,
    ledger: Lines,
    *,
    max_sandboxes: int | None = None,
    max_lifetime_seconds: float = 120,
    emit: Emit = ignore,
) -> Job:
    return Job(
        connection,
        job_id=new_job_id(),
        max_lifetime_seconds=max_lifetime_seconds,
        ledger=ledger,
        max_sandboxes=max_sandboxes,
        emit=emit,
    )


def run(job: Job, *launches: Launch) -> list[bytes]:
    waiting, printed = set(launches), {}
    while waiting:
        for launch in job.wait_any(Interrupt()):
            waiting.discard(launch)
            printed[launch] = job.collect(launch).stdout
    return [printed[launch] for launch in launches]


def living(job: Job) -> list[SandboxInfo]:
    return Inventory(job.connection).list(tags=[job.id])


def wait_until_there_are(count: int, job: Job) -> None:
    while len(living(job)) != count:
        time.sleep(0.05)


def test_a_launch_takes_a_sandbox_that_stands_ready_and_none_is_used_twice(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger) as job:
        job.warm_up(2, tags=["step-3"])
        wait_until_there_are(2, job)
        ready = {sandbox.id for sandbox in living(job)}
        launches = [job.launch(MARK, tags=[f"problem-{number}"], may_be_warm=True) for number in range(3)]
        assert run(job, *launches) == [b"0\n"] * 3
    assert len({launch.sandbox_id for launch in launches}) == 3
    assert {launch.sandbox_id for launch in launches[:2]} == ready
    assert [ledger.events[launch.key] for launch in launches] == [
        ["intent", "taken", "created", "stopped"],
        ["intent", "taken", "created", "stopped"],
        ["intent", "created", "stopped"],
    ]
    assert ledger.tags[launches[0].key] == [(*job.tags, WARM_TAG, "step-3"), ("problem-0",)]


def test_what_nobody_used_is_gone_with_its_job(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger) as job:
        job.warm_up(3)
        # One whose id is not known yet is stopped by its tags, and has no line of its own about that.
        wait_until_there_are(3, job)
        run(job, job.launch(MARK, may_be_warm=True))
    assert living(job) == []
    assert sorted(map(tuple, ledger.events.values())) == [
        ("intent", "stopped"),
        ("intent", "stopped"),
        ("intent", "taken", "created", "stopped"),
    ]


def test_a_known_good_program_gets_a_sandbox_made_for_it(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger) as job:
        job.warm_up(1)
        launch = job.launch(MARK)
        run(job, launch)
    assert ledger.events[launch.key] == ["intent", "created", "stopped"]


def test_what_stands_ready_counts_as_held(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger, max_sandboxes=2) as job:
        job.warm_up(5)
        wait_until_there_are(2, job)
        assert run(job, *(job.launch(MARK, may_be_warm=True) for _ in range(4))) == [b"0\n"] * 4
    assert len(ledger.events) == 4


def test_one_with_too_little_life_left_is_replaced(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger, max_lifetime_seconds=31.5) as job:
        job.warm_up(1, timeout_seconds=1.0)
        time.sleep(0.6)
        long, short = (Command(MARK.argv, timeout_seconds=seconds) for seconds in (20.0, 0.5))
        launch = job.launch(long, may_be_warm=True)
        run(job, launch)
        assert ledger.events[launch.key][:2] == ["intent", "created"], "it would not have lived long enough"
        job.warm_up(1, timeout_seconds=1.0)
        launch = job.launch(short, may_be_warm=True)
        assert run(job, launch) == [b"0\n"]
    assert ledger.events["000001"] == ["intent", "stopped"]
    assert ledger.events[launch.key] == ["intent", "taken", "created", "stopped"]


def test_what_stands_ready_at_a_runtime_that_died_is_thrown_away_and_costs_no_retry(settings: Settings) -> None:
    connection, ledger, told = connect(settings, runtime=RuntimeKind.LOCAL), Lines(), list[Event]()
    with a_job(connection, ledger, emit=told.append) as job:
        job.warm_up(4)
        wait_until_there_are(4, job)
        ready = set(ledger.events)
        kill_daemon(settings.state_dir)
        time.sleep(BEAT_SECONDS)
        function = sandrl.reward_function([INC], job=job, retries=0, emit=told.append)
        assert function(["Add one."] * 6, [RIGHT.format(number) for number in range(6)]) == [1.0] * 6
    # None was taken; one whose id had not arrived when the daemon was killed has no line about its end.
    assert {tuple(ledger.events[key]) for key in ready} <= {("intent", "stopped"), ("intent",)}
    assert not [event for event in told if isinstance(event, RetryScheduled)]
    assert [event.message for event in told if isinstance(event, Warned)] == [
        f"the local runtime ended; the job continues with another one at {job.connection.address}"
    ]


def test_a_runtime_that_dies_in_mid_batch_costs_no_retry_of_those_that_were_set(settings: Settings) -> None:
    connection, told = connect(settings, runtime=RuntimeKind.LOCAL), list[Event]()
    slow = RIGHT.format(0).replace("def", "import time\ntime.sleep(1)\ndef")
    with a_job(connection, Lines()) as job:
        function = sandrl.reward_function([INC], job=job, retries=0, concurrency=4, emit=told.append)
        killer = threading.Timer(0.7, kill_daemon, [settings.state_dir])
        killer.start()
        texts = [slow.replace("0", str(number)) for number in range(8)]
        assert function(["Add one."] * 8, texts) == [1.0] * 8
        killer.join()
    moved = [event for event in told if isinstance(event, RetryScheduled)]
    assert moved
    assert {event.delay_seconds for event in moved} == {0.0}


_KILLED_AND_CLOSED = """
import logging, os, signal, sys, time
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("grpc").setLevel(logging.INFO)  # it logs a traceback for input that is not read
import sandrl
from sandrl.runtime import daemon
from sandrl.settings import load_settings
problem = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}
text = "<answer>def f(x):\\n    return x + {0} - {0} + 1</answer>"
with sandrl.reward_function([problem], warm_sandboxes=4, concurrency=4, runtime="local") as function:
    for step in range(2):
        texts = [text.format(4 * step + number) for number in range(4)]
        print(function(["Add one."] * 4, texts))
        time.sleep(1.0)
        os.kill(daemon.find(load_settings().state_dir).pid, signal.SIGKILL)
"""


@pytest.mark.usefixtures("settings")
def test_no_traceback_of_the_sdk_is_logged_for_sandboxes_of_a_runtime_that_died() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED_AND_CLOSED], capture_output=True, text=True, check=False)
    assert done.stdout == "[1.0, 1.0, 1.0, 1.0]\n" * 2
    assert "DEBUG:cwsandbox" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


def test_a_reward_function_has_as_many_ready_as_the_last_batch_ran(connection: Connection) -> None:
    ledger = Lines()
    with a_job(connection, ledger) as job:
        function = sandrl.reward_function([INC], job=job, warm_sandboxes=3)
        for first, ready in ((0, 2), (2, 3), (7, 3)):
            texts = [RIGHT.format(first + number) for number in range(2 if not first else 5)]
            assert function(["Add one."] * len(texts), texts) == [1.0] * len(texts)
            assert sum(events == ["intent"] for events in ledger.events.values()) == ready
    taken = [events for events in ledger.events.values() if "taken" in events]
    assert len(taken) == 2 + 3
