"""Every runtime of sandrl, whose providers are checked.

Docker and Podman are engines of the tests, where they start, and Kubernetes is a stand-in for a cluster. The remote
runtime is the local daemon, as the SDK reaches it, or the service that `SANDRL_TEST_CWSANDBOX_API_KEY` is for, and
`SANDRL_TEST_CWSANDBOX_BASE_URL` if it is not at the usual address. That of Ray clusters takes part if
`SANDRL_TEST_RAY_ADDRESS` names one that this machine belongs to.
`pytest tests/conformance -k daemonless` runs the tests of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandrl.runtime import daemon
from sandrl.sandboxes import Connection, connect
from sandrl.sandboxes.conformance import Examination
from sandrl.settings import RuntimeKind, Settings, runtime_names
from tests.support.engines import engine
from tests.support.kubernetes_api import cluster

_PREFIX = "SANDRL_TEST_"
_SLOW = (RuntimeKind.REMOTE, RuntimeKind.PODMAN)


@pytest.fixture(scope="session")
def local() -> Iterator[Settings]:
    given = {name.removeprefix(_PREFIX): value for name, value in os.environ.items() if name.startswith(_PREFIX)}
    settings = Settings.from_environment(os.environ | given)
    yield settings
    daemon.stop(settings.state_dir)


@pytest.fixture(
    scope="session",
    params=[pytest.param(each, marks=[pytest.mark.slow] if each in _SLOW else []) for each in runtime_names()],
)
def runtime(request: pytest.FixtureRequest) -> str:
    """Its name."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def settings(local: Settings, runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Those with which the runtime is reached."""
    if runtime == RuntimeKind.RAY and local.ray_address is None:
        pytest.skip(f"no {_PREFIX}RAY_ADDRESS is set")
    if runtime == RuntimeKind.REMOTE and local.credentials is None:
        endpoint = daemon.ensure_running(local.state_dir)
        yield replace(local, api_key=endpoint.token, api_key_source="token", base_url=endpoint.base_url)
    elif runtime in (RuntimeKind.DOCKER, RuntimeKind.PODMAN):
        with engine(RuntimeKind(runtime), tmp_path_factory.mktemp(runtime)) as address:
            yield replace(local, docker_host=address, container_host=address)
    elif runtime == RuntimeKind.KUBERNETES:
        pods = replace(local, state_dir=tmp_path_factory.mktemp("pods"))
        directory = tmp_path_factory.mktemp("kubernetes")
        with cluster(pods, directory):
            yield replace(local, kubeconfig=str(directory / "config"))
        daemon.stop(pods.state_dir)
    else:
        yield local


@pytest.fixture(scope="session")
def image(local: Settings, runtime: str) -> str | None:
    """That of its sandboxes; the local daemon has no other for those who call it the remote runtime."""
    is_daemon = runtime == RuntimeKind.REMOTE and local.credentials is None
    return daemon.status(local.state_dir).default_image if is_daemon else None


@pytest.fixture
def connection(settings: Settings, runtime: str, image: str | None) -> Connection:
    return connect(settings, runtime=runtime, image=image)


@pytest.fixture(scope="session")
def examination(settings: Settings, runtime: str, image: str | None) -> Iterator[Examination]:
    with Examination(connect(settings, runtime=runtime, image=image), settings) as examination:
        yield examination
