"""A job on a runtime that has no room, or may hold no more: it slows down, and no completion pays for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from sandrl.events import CreationSlowed, Event, SandboxCreated, SandboxStopped
from sandrl.events.results import Status
from sandrl.problems import Completion, Problem
from sandrl.rewards import ScoreOptions, score
from sandrl.sandboxes import Command, Connection, Interrupt, Job, Level, Withdrawn, connect, new_job_id
from sandrl.sandboxes.inventory import Inventory
from sandrl.settings import RuntimeKind, Settings

INC = {"inc": Problem("inc", "Add one.", tests=("assert f(1) == 2",))}
SLOW = "import time\ntime.sleep(0.4)\ndef f(x):\n    return x + 1\n"
FOR_EVER = Command(("sleep", "60"))


@pytest.fixture(scope="module")
def small_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A local runtime that holds three sandboxes."""
    state = tmp_path_factory.mktemp("small-runtime")
    words = [sys.executable, "-m", "sandrl", "runtime", "serve", "--max-sandboxes", "3"]
    environment = {**os.environ, "SANDRL_STATE_DIR": str(state)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("export")
        yield Settings.from_environment({"SANDRL_STATE_DIR": str(state)})
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


@pytest.fixture
def small(small_runtime: Settings) -> Connection:
    return connect(small_runtime, runtime=RuntimeKind.LOCAL)


def test_a_runtime_that_is_full_slows_a_job_down_and_fails_nothing(small: Connection) -> None:
    told: list[Event] = []
    completions = [Completion(f"c{number}", "inc", code=SLOW) for number in range(12)]
    # Without a single retry: none of the refusals may count as one.
    options = ScoreOptions(concurrency=8, retries=0, caching=False)
    with Job(small, job_id=new_job_id(), max_lifetime_seconds=60, emit=told.append) as job:
        report = score(completions, INC, job=job, options=options, emit=told.append)
    assert [result.status for result in report.results] == [Status.PASSED] * 12
    assert {(result.sandboxes, result.retries, result.failures) for result in report.results} == {(1, 0, ())}
    (slowed,) = [event for event in told if isinstance(event, CreationSlowed)]
    assert "holds 3 sandboxes" in slowed.reason
    assert slowed.delay_seconds >= 0.5, "the service asked for that"
    created = [event.sandbox_id for event in told if isinstance(event, SandboxCreated)]
    stopped = [event.sandbox_id for event in told if isinstance(event, SandboxStopped)]
    assert len(set(created)) == 12
    assert sorted(created) == sorted(stopped)
    assert job.unstopped == ()


def test_a_wish_to_stop_is_not_kept_waiting_by_a_runtime_that_is_full(small: Connection) -> None:
    interrupt = Interrupt()
    told: list[Event] = []

    def tell(event: Event) -> None:
        told.append(event)
        if isinstance(event, CreationSlowed):
            interrupt.request(signal.SIGINT)

    with Job(small, job_id=new_job_id(), max_lifetime_seconds=60) as other:
        for _ in range(3):
            other.launch(FOR_EVER)
        assert other.wait_any(timeout_seconds=2.0) == []
        with Job(small, job_id=new_job_id(), max_lifetime_seconds=60, emit=tell) as job:
            report = score(
                [Completion("c", "inc", code=SLOW)] * 4, INC, job=job, options=ScoreOptions(), interrupt=interrupt
            )
    assert (report.results, report.unfinished, report.signal_number) == ((), 4, signal.SIGINT)


def test_a_launch_that_was_withdrawn_says_so(small: Connection) -> None:
    interrupt = Interrupt()
    interrupt.request(signal.SIGINT)
    with Job(small, job_id=new_job_id(), max_lifetime_seconds=60, max_sandboxes=1) as job:
        first, second = job.launch(FOR_EVER), job.launch(FOR_EVER)
        assert job.wait_any(interrupt, Level.FINISH) == [second]
        with pytest.raises(Withdrawn):
            job.collect(second)
        assert first.process is not None


def test_a_job_never_holds_more_than_it_may(connection: Connection) -> None:
    job_id = new_job_id()
    most: list[int] = []
    over = threading.Event()

    def watch() -> None:
        inventory = Inventory(connection)
        while not over.wait(0.02):
            most.append(len(inventory.list(tags=[job_id])))

    watcher = threading.Thread(target=watch)
    watcher.start()
    told: list[Event] = []
    try:
        with Job(connection, job_id=job_id, max_lifetime_seconds=60, max_sandboxes=2, emit=told.append) as job:
            completions = [Completion(f"c{number}", "inc", code=SLOW) for number in range(8)]
            report = score(completions, INC, job=job, options=ScoreOptions(concurrency=8, caching=False))
    finally:
        over.set()
        watcher.join()
    assert report.summary.passed == 8
    assert max(most) == 2
    assert not [event for event in told if isinstance(event, CreationSlowed)]


def test_the_room_of_a_kept_sandbox_is_taken_until_it_is_released(connection: Connection) -> None:
    quick = Command(("true",))
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=60, max_sandboxes=1) as job:
        first, second = job.launch(quick), job.launch(quick)
        assert job.wait_any() == [first]
        job.collect(first, keep=True)
        assert job.wait_any(timeout_seconds=0.5) == []
        assert second.process is None
        again = job.launch(quick, within=first)
        assert job.wait_any() == [again]
        assert job.collect(again).sandbox_id == first.sandbox_id
        assert job.wait_any() == [second]
        assert job.collect(second).exit_code == 0
