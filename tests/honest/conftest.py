"""One local runtime for these tests, in the state directory of the test session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, load_settings


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=1800) as job:
        yield job
