"""What a request for sandboxes becomes: a connection, a job, and what a run keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.errors import UsageError
from sandrl.runs import RunWriter
from sandrl.sandboxes import Connection, SandboxRequest
from sandrl.settings import Settings


@pytest.fixture
def remote(tmp_path: Path) -> Connection:
    settings = Settings.from_environment({"SANDRL_STATE_DIR": str(tmp_path), "CWSANDBOX_API_KEY": "key-1234"})
    return SandboxRequest(image="mine:1").connect(settings)


def test_a_bound_that_no_sandbox_fits_in_is_refused_instead_of_waiting_for_ever() -> None:
    with pytest.raises(UsageError, match="max_sandboxes must be 1 or more, not 0"):
        SandboxRequest(max_sandboxes=0)


def test_the_tags_of_the_workflow_come_before_the_users() -> None:
    assert SandboxRequest(tags=("mine",)).tagged("redteam", "model:m").tags == ("redteam", "model:m", "mine")


def test_a_job_without_a_run_has_an_id_of_its_own(remote: Connection) -> None:
    wanted = SandboxRequest(tags=("mine",), max_sandboxes=3)
    with (
        wanted.job(remote, command="score", max_lifetime_seconds=60) as one,
        wanted.job(remote, command="score", max_lifetime_seconds=60) as other,
    ):
        assert one.id != other.id
        assert "mine" in one.tags
        assert one.max_sandboxes == 3


def test_a_job_of_a_run_has_the_id_that_the_run_knows_it_by(remote: Connection, tmp_path: Path) -> None:
    with (
        RunWriter.create(tmp_path / "runs", command="reward", job_id="job-0a1b2c3d") as writer,
        SandboxRequest().job(remote, command="reward", max_lifetime_seconds=60, writer=writer) as job,
    ):
        assert job.id == "job-0a1b2c3d"


def test_a_run_keeps_what_was_asked_for_and_what_that_came_to(remote: Connection) -> None:
    assert SandboxRequest(tags=("mine",), packages=("rich",)).document(remote) == {
        "max_sandboxes": None,
        "runtime": "remote",
        "runtime_reason": "CWSANDBOX_API_KEY is set",
        "image": "mine:1",
        "packages": ["rich"],
        "tags": ["mine"],
    }
