"""A job that cannot clean up says which command does, in whatever way it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandrl.events import Event, Warned
from sandrl.runtime import daemon
from sandrl.sandboxes import Command, Connection, Job, connect, new_job_id, read_jobs
from sandrl.sandboxes.inventory import Inventory
from sandrl.settings import RuntimeKind, Settings
from tests.support.faulty_runtime import faulty_runtime


@contextmanager
def frozen(state_dir: Path) -> Iterator[None]:
    """A runtime that does not answer for the length of a `with` block."""
    endpoint = daemon.find(state_dir)
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(endpoint.pid, signal.SIGCONT)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Connection]:
    """A runtime of this test alone."""
    settings = Settings.from_environment({"SANDRL_STATE_DIR": str(tmp_path / "state")})
    yield connect(settings, runtime=RuntimeKind.LOCAL)
    daemon.stop(settings.state_dir)


def test_what_could_not_be_stopped_is_told_with_the_command_that_ends_it(own: Connection) -> None:
    assert own.state_dir is not None
    told: list[Event] = []
    job = Job(own, job_id=new_job_id(), max_lifetime_seconds=60, emit=told.append)
    launch = job.launch(Command(("true",)))
    assert job.wait_any() == [launch]
    job.collect(launch, keep=True)
    with frozen(own.state_dir):
        job.close(timeout_seconds=2.0)
    assert launch.sandbox_id in job.unstopped
    (warning,) = [event for event in told if isinstance(event, Warned)]
    assert warning.hint == f"sandrl sandboxes cleanup --tag {job.id}"
    error = job.cleanup_error()
    assert error is not None
    assert (error.exit_code, error.hint) == (4, warning.hint)
    assert [entry.job_id for entry in read_jobs(own.state_dir)] == [job.id], "its sandboxes must still be found"


def test_cleaning_up_goes_on_where_nobody_can_be_told(own: Connection) -> None:
    def break_off(event: Event) -> None:
        raise BrokenPipeError

    job = Job(own, job_id=new_job_id(), max_lifetime_seconds=60, emit=break_off)
    for _ in range(3):
        job.launch(Command(("sleep", "60")))
    assert job.wait_any(timeout_seconds=2.0) == []
    job.close()
    assert job.unstopped == ()
    assert Inventory(own).list() == []


def test_a_stop_that_failed_is_tried_again_before_the_job_ends(tmp_path: Path) -> None:
    settings = Settings.from_environment({"SANDRL_STATE_DIR": str(tmp_path / "state")})
    with faulty_runtime(settings.state_dir, "--fail-once"):
        connection = connect(settings, runtime=RuntimeKind.LOCAL)
        job = Job(connection, job_id=new_job_id(), max_lifetime_seconds=60)
        with job:
            launches = [job.launch(Command(("true",))) for _ in range(3)]
            landed: list[object] = []
            while len(landed) < len(launches):
                ended = job.wait_any()
                landed.extend(ended)
                for launch in ended:
                    job.collect(launch)
        assert job.unstopped == ()
        assert job.cleanup_error() is None
        assert Inventory(connection).list() == []
