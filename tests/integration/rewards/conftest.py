"""One local runtime for these tests, in the state directory of the test session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sandrl.sandboxes import Connection, Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings, load_settings

MakeJob = Callable[..., Job]


@pytest.fixture(scope="session")
def settings() -> Settings:
    return load_settings()


@pytest.fixture
def connection(settings: Settings) -> Connection:
    """The runtime, started again if a test before ended it."""
    return connect(settings, runtime=RuntimeKind.LOCAL)


@pytest.fixture(params=[True, False], ids=["cells", "fresh"])
def has_cells(request: pytest.FixtureRequest) -> bool:
    """Whether completions run in cells: what is judged, and how, must not depend on it."""
    return bool(request.param)


@pytest.fixture
def job(connection: Connection, has_cells: bool) -> Iterator[Job]:
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=120, has_cells=has_cells) as job:
        yield job
