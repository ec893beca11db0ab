"""One local runtime for these tests, in the state directory of the test session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sandrl.sandboxes import Connection, Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings, load_settings

MakeJob = Callable[..., Job]

# What these test is decided outside the sandbox, or by code that is the same in both kinds of it.
ABOVE_THE_SANDBOX = {
    "test_caching", "test_calls", "test_copied_functions", "test_function", "test_numbers_agree",
    "test_published_rows", "test_pytest_fixtures", "test_reward_functions",
}  # fmt: skip


@pytest.fixture(scope="session")
def settings() -> Settings:
    return load_settings()


@pytest.fixture
def connection(settings: Settings) -> Connection:
    """The runtime, started again if a test before ended it."""
    return connect(settings, runtime=RuntimeKind.LOCAL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Completions run in cells or in fresh sandboxes: what is judged, and how, must not depend on it."""
    if "has_cells" in metafunc.fixturenames:
        kinds = {"cells": True, "fresh": False}
        if metafunc.module.__name__.rpartition(".")[2] in ABOVE_THE_SANDBOX:
            del kinds["fresh"]
        metafunc.parametrize("has_cells", kinds.values(), ids=kinds)


@pytest.fixture
def job(connection: Connection, has_cells: bool) -> Iterator[Job]:
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=120, has_cells=has_cells) as job:
        yield job
