"""One local runtime for these tests, in the state directory of the test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandrl.events import Event
from sandrl.rollouts.sandbox import JobSandboxes
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def sandboxes(told: list[Event]) -> Iterator[JobSandboxes]:
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=120) as job:
        yield JobSandboxes(job, emit=told.append)
