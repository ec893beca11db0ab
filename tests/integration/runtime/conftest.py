"""One real daemon for these tests, and the unmodified SDK pointed at it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ["CWSANDBOX_DISABLE_SIGNAL_HANDLERS"] = "1"

from cwsandbox import AuthHeaders, ProcessResult, Sandbox, SandboxDefaults, Session

from sandrl.runtime import daemon
from sandrl.runtime.state import DaemonEndpoint
from tests.support.image_trees import import_tree, make_python_tree

CreateSandbox = Callable[..., Sandbox]


@pytest.fixture(scope="session")
def runtime_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    state = tmp_path_factory.mktemp("runtime-state")
    yield state
    daemon.stop(state)


@pytest.fixture
def endpoint(runtime_state: Path, monkeypatch: pytest.MonkeyPatch) -> DaemonEndpoint:
    """The daemon, started again if a test before ended it."""
    endpoint = daemon.ensure_running(runtime_state)
    monkeypatch.setenv("CWSANDBOX_BASE_URL", endpoint.base_url)
    monkeypatch.setenv("CWSANDBOX_API_KEY", endpoint.token)
    return endpoint


def defaults_for(endpoint: DaemonEndpoint, **changes: Any) -> SandboxDefaults:
    auth = AuthHeaders(headers={"Authorization": f"Bearer {endpoint.token}"}, strategy="api_key")
    return SandboxDefaults(base_url=endpoint.base_url, auth=auth, data_plane_mode="gateway", **changes)


SYSTEMS = pytest.mark.parametrize("system", ["host", "an image"], indirect=True)
"""Runs a test in a sandbox of the host's system, and as user 0 in one of an image with the system's Python."""


@pytest.fixture
def system(request: pytest.FixtureRequest) -> str:
    """The reference of what sandboxes start from."""
    wanted = getattr(request, "param", "host")
    return wanted if wanted == "host" else import_tree("tests/python:3", make_python_tree)


@pytest.fixture
def defaults(endpoint: DaemonEndpoint, system: str) -> SandboxDefaults:
    return defaults_for(endpoint, container_image=system)


@pytest.fixture
def session(defaults: SandboxDefaults) -> Iterator[Session]:
    session = Session(defaults, report_to=[])
    yield session
    session.close().result()


@pytest.fixture
def sandbox(session: Session) -> Sandbox:
    """A fresh sandbox, not yet started."""
    return session.sandbox()


def run(sandbox: Sandbox, program: str, *, timeout: float = 30) -> ProcessResult:
    """How a Python program ends in a sandbox."""
    return sandbox.exec(["python", "-c", program], timeout_seconds=timeout).result()


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
