"""Every provider there is, behind the same protocol.

A provider takes part because its name is a `RuntimeKind`. The remote one does if a key for it is given to the tests,
which otherwise know no credentials: `SANDRL_TEST_CWSANDBOX_API_KEY`, and `SANDRL_TEST_CWSANDBOX_BASE_URL` if it is not
at the usual address. That of Ray clusters does if `SANDRL_TEST_RAY_ADDRESS` names one that this machine belongs to.
Those of containers do if their engine runs and has the image `python:3.11`, or can pull it.
That of Kubernetes has a stand-in for a cluster (`tests/support/kubernetes_api.py`).
`pytest tests/conformance -k daemonless` runs the tests of one.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandrl.runtime import daemon
from sandrl.sandboxes import Connection, connect, find_connection
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.protocol import Client, Result, Sandbox
from sandrl.settings import RuntimeKind, Settings
from tests.support.kubernetes_api import cluster

_PREFIX = "SANDRL_TEST_"
PATIENCE_SECONDS = 60.0

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    given = {name.removeprefix(_PREFIX): value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    given["KUBECONFIG"] = str(tmp_path_factory.mktemp("kubernetes") / "config")
    settings = Settings.from_environment(os.environ | given)
    yield settings
    daemon.stop(settings.state_dir)


@pytest.fixture(scope="session", params=[kind for kind in RuntimeKind if kind is not RuntimeKind.AUTO])
def kind(
    request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RuntimeKind]:
    """The provider's name."""
    kind: RuntimeKind = request.param
    if kind is RuntimeKind.REMOTE and settings.credentials is None:
        pytest.skip(f"no {_PREFIX}CWSANDBOX_API_KEY is set")
    if kind is RuntimeKind.RAY and settings.ray_address is None:
        pytest.skip(f"no {_PREFIX}RAY_ADDRESS is set")
    if kind in (RuntimeKind.DOCKER, RuntimeKind.PODMAN):
        pytest.importorskip("docker", reason="the extra `docker` is not installed")
        if find_connection(settings, runtime=kind) is None:
            pytest.skip(f"{kind} is not running; {_PREFIX}DOCKER_HOST or {_PREFIX}CONTAINER_HOST name a socket")
    if kind is RuntimeKind.KUBERNETES:
        pytest.importorskip("kubernetes", reason="the extra `kubernetes` is not installed")
        assert settings.kubeconfig is not None
        pods = replace(settings, state_dir=tmp_path_factory.mktemp("pods"))
        with cluster(pods, Path(settings.kubeconfig).parent):
            yield kind
        daemon.stop(pods.state_dir)
        return
    yield kind


@pytest.fixture
def connection(settings: Settings, kind: RuntimeKind) -> Connection:
    return connect(settings, runtime=kind)


@pytest.fixture
def on_this_machine(connection: Connection) -> None:
    """For what is promised of this machine's own sandboxes only."""
    if not connection.is_local:
        pytest.skip("the limits of the service are its own")


@pytest.fixture
def tag() -> str:
    """What tells the sandboxes of one test."""
    return f"conformance-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(connection: Connection, tag: str) -> Iterator[Client]:
    """A client, whose sandboxes are gone after the test."""
    client = connection.open(tags=[tag], max_lifetime_seconds=300)
    yield client
    for sandbox in client.list([tag]).result(PATIENCE_SECONDS):
        sandbox.stop().result(PATIENCE_SECONDS)
    client.close(PATIENCE_SECONDS)


@pytest.fixture
def sandbox(client: Client) -> Sandbox:
    return client.create(())


@pytest.fixture
def run(sandbox: Sandbox) -> Run:
    """Runs a program in the sandbox of the test, to its end."""

    def run(*argv: str, stdin: bytes = b"", timeout_seconds: float = 30.0) -> Result:
        return sandbox.run(Command(argv, stdin, timeout_seconds)).result(PATIENCE_SECONDS)

    return run
