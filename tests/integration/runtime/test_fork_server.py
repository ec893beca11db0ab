"""The fork server ends, or stops answering: the daemon starts another one, and nobody waits for the first."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cwsandbox import Session
from cwsandbox.exceptions import CWSandboxError

from sandrl.runtime import daemon
from sandrl.runtime.host import fork_server
from sandrl.runtime.state import DaemonEndpoint
from tests.integration.runtime.conftest import defaults_for, wait_until
from tests.support.fork_server import inner_process, outer_process

KILLS = {
    "the inner process": [inner_process],
    "the outer process": [outer_process],
    "both": [outer_process, inner_process],
}

SPARES = 2


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonEndpoint]:
    """A daemon of this test, which has a fork server."""
    monkeypatch.setenv("SANDRL_RUNTIME_ISOLATION", "native")
    yield daemon.ensure_running(tmp_path)
    daemon.stop(tmp_path)


def open_session(endpoint: DaemonEndpoint) -> Session:
    return Session(defaults_for(endpoint), report_to=[])


def kill(endpoint: DaemonEndpoint, which: str) -> None:
    wait_until(lambda: inner_process(endpoint.pid) > 0)
    for pid in [find(endpoint.pid) for find in KILLS[which]]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            assert which == "both"  # the first took the second along


@pytest.mark.parametrize(
    "which", ["the inner process", "the outer process", pytest.param("both", marks=pytest.mark.slow)]
)
def test_a_fork_server_that_is_killed_is_started_again(native: DaemonEndpoint, which: str) -> None:
    session = open_session(native)
    assert session.sandbox().exec(["echo", "1"]).result().stdout == "1\n"
    assert daemon.status(native.state_dir).restarts == 0
    kill(native, which)
    wait_until(lambda: daemon.status(native.state_dir).restarts == 1)
    for number in ("2", "3", "4"):
        assert session.sandbox().exec(["echo", number]).result().stdout == f"{number}\n"
    status = daemon.status(native.state_dir)
    assert (status.is_well, status.restarts) == (True, 1)
    assert "killed by SIGKILL" in status.condition


def test_what_ran_when_it_was_killed_ends_with_an_error_and_no_exit_code(native: DaemonEndpoint) -> None:
    session = open_session(native)
    running = [session.sandbox().exec(["sh", "-c", "echo up; sleep 100"]) for _ in range(4)]
    for process in running:
        assert next(iter(process.stdout)) == "up\n"
    kill(native, "the inner process")
    for process in running:
        with pytest.raises(CWSandboxError) as error:
            process.result()
        assert error.value.reason == "CWSANDBOX_RUNNER_UNAVAILABLE"
        assert "sandrl_lost_runtime" in error.value.metadata


def test_boots_in_flight_when_it_is_killed_succeed_with_the_next_one(native: DaemonEndpoint) -> None:
    session = open_session(native)
    session.sandbox().exec(["true"]).result()
    for _ in range(3):
        starting = [(sandbox := session.sandbox(), sandbox.start()) for _ in range(12)]
        kill(native, "the inner process")
        for _, started in starting:
            started.result()
        wait_until(lambda: daemon.status(native.state_dir).is_well)
        # Those that had answered before the kill are lost; asking for new ones works at once.
        assert session.sandbox().exec(["echo", "well"]).result().stdout == "well\n"


def test_a_fork_server_that_does_not_answer_is_replaced_while_a_boot_waits(native: DaemonEndpoint) -> None:
    session = open_session(native)
    session.sandbox().exec(["true"]).result()
    stopped = inner_process(native.pid)
    os.kill(stopped, signal.SIGSTOP)
    status = daemon.status(native.state_dir)
    assert not status.is_well
    assert "does not answer" in status.condition
    waiting = [session.sandbox().exec(["echo", "well"]) for _ in range(6)]
    assert {process.result().stdout for process in waiting} == {"well\n"}
    assert not Path(f"/proc/{stopped}").exists()
    status = daemon.status(native.state_dir)
    assert (status.is_well, status.restarts) == (True, 1)
    assert "did not answer" in status.condition


def test_one_that_ends_again_and_again_makes_creates_fail_with_the_reason_until_it_stays(
    native: DaemonEndpoint,
) -> None:
    session = open_session(native)
    session.sandbox().exec(["true"]).result()

    def end_it() -> bool:
        pid = inner_process(native.pid)
        if pid:
            os.kill(pid, signal.SIGKILL)
        return "being restarted" in daemon.status(native.state_dir).condition and not pid

    def create_fails() -> bool:
        while not end_it():
            time.sleep(0.01)
        try:
            session.sandbox().start().result()
        except CWSandboxError as error:
            return "soon after its start; last: killed by SIGKILL" in str(error)
        return False

    wait_until(create_fails, seconds=60)
    wait_until(lambda: daemon.status(native.state_dir).is_well)
    assert session.sandbox().exec(["echo", "well"]).result().stdout == "well\n"


def test_sandboxes_that_stand_ready_are_replaced(native: DaemonEndpoint) -> None:
    before = daemon.status(native.state_dir)
    session = open_session(native)
    session.sandbox().exec(["true"]).result()
    session.close().result()
    wait_until(lambda: daemon.status(native.state_dir).processes == before.processes + SPARES)
    kill(native, "the inner process")
    wait_until(lambda: daemon.status(native.state_dir).restarts == 1)
    wait_until(lambda: daemon.status(native.state_dir).processes == before.processes + SPARES)


def test_a_daemon_that_was_stopped_for_long_does_not_take_its_fork_server_for_stuck(native: DaemonEndpoint) -> None:
    session = open_session(native)
    session.sandbox().exec(["true"]).result()
    long = fork_server._SILENT_TICKS * fork_server._TICK_SECONDS + 2
    starting = [session.sandbox().start() for _ in range(4)]
    os.kill(native.pid, signal.SIGSTOP)
    try:
        time.sleep(long)
    finally:
        os.kill(native.pid, signal.SIGCONT)
    for start in starting:
        start.result()
    assert daemon.status(native.state_dir).restarts == 0
