"""What the runtimes of containers refuse, and what they read of an engine; the conformance tests need a real one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sandrl.errors import UsageError
from sandrl.runtime.network import Network
from sandrl.sandboxes.providers import find_provider
from sandrl.sandboxes.providers.containers.sandbox import describe
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.sandboxes.shape import Shape
from sandrl.settings import NetworkMode, RuntimeKind, Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path, cache_dir=tmp_path, container_host=f"unix://{tmp_path}/engine.sock")


@pytest.fixture
def engine_socket(tmp_path: Path) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "engine.sock"))
        yield


def connect(settings: Settings, packages: Packages) -> object:
    provider = find_provider(RuntimeKind.PODMAN)
    return provider.connect(settings, reason="", image=None, packages=packages, emit=lambda _: None)


def test_an_engine_that_is_not_there_is_named_with_its_address(settings: Settings) -> None:
    assert find_provider(RuntimeKind.PODMAN).find(settings, reason="") is None
    with pytest.raises(UsageError, match=r"Podman is not running.*engine\.sock"):
        connect(settings, Packages())


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:2375", "ssh://user@host", "npipe:////./pipe/docker_engine"])
def test_an_engine_elsewhere_is_refused(settings: Settings, address: str) -> None:
    with pytest.raises(UsageError, match="of this machine only"):
        find_provider(RuntimeKind.DOCKER).find(replace(settings, docker_host=address), reason="")


def test_packages_are_refused(settings: Settings) -> None:
    with pytest.raises(UsageError, match="installs no packages"):
        connect(settings, Packages(asked=("numpy",)))


@pytest.mark.usefixtures("engine_socket")
def test_networks_and_shapes_that_an_engine_does_not_have_are_refused(settings: Settings) -> None:
    found = find_provider(RuntimeKind.PODMAN).find(settings, reason="")
    assert found is not None
    with pytest.raises(UsageError, match="no network"):
        replace(found, network=Network(NetworkMode.PUBLIC)).open()
    client = replace(found, network=Network(NetworkMode.NONE), image="python:3.11").open()
    for shape in (Shape(gpus=1), Shape(storage_bytes=1), Shape(network=Network(NetworkMode.PUBLIC))):
        with pytest.raises(UsageError, match="gives no sandbox"):
            client.create((), shape=shape)


def test_a_container_is_described_by_its_labels() -> None:
    labels = {"sandrl.id": "one", "sandrl.tag.rl-training": "", "sandrl.lifetime": "300", "sandrl.memory": "512"}
    labels["sandrl.image"] = "python:3.11"
    found = describe({"Labels": labels, "State": "running", "Created": 0, "Image": "sha256:0"})
    assert (found.id, found.status, found.tags, found.image) == ("one", "running", ("rl-training",), "python:3.11")
    assert (found.max_lifetime_seconds, found.resources) == (300.0, (("memory", "512"),))
    assert found.created_at == datetime(1970, 1, 1, tzinfo=UTC)
    forged = describe({"Labels": labels | {"sandrl.lifetime": "long"}, "State": "exited", "Created": 0, "Image": ""})
    assert (forged.max_lifetime_seconds, forged.has_ended) == (0.0, True)
