"""One service for the tests that do not end it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.service import RunningService, running_service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    words = ("--problems", "bundled", "--access-log")
    with running_service(tmp_path_factory.mktemp("service"), *words) as service:
        yield service


@pytest.fixture
def http(service: RunningService) -> Iterator[httpx.Client]:
    with service.client() as client:
        yield client
