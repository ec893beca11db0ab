"""Sandboxes from images that are not stored yet: commands pull them, and so does the daemon for other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from cwsandbox import SandboxValidationError, Session

from sandrl.errors import ServiceError
from sandrl.events import Event, ImageProgress, RuntimeChosen
from sandrl.sandboxes.connection import connect
from sandrl.settings import RuntimeKind, load_settings
from tests.support.image_trees import make_busybox_tree
from tests.support.registries import Image, ScriptedRegistry, make_image, scripted_registry


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    tree = tmp_path_factory.mktemp("tree")
    make_busybox_tree(tree)
    return make_image(tree, {"etc/motd": b"from the registry\n"})


@pytest.fixture
def registry(image: Image) -> Iterator[ScriptedRegistry]:
    with scripted_registry() as registry:
        registry.add(image)
        yield registry


def test_the_daemon_pulls_an_image_for_a_program_that_only_has_the_sdk(
    session: Session, registry: ScriptedRegistry, image: Image
) -> None:
    sandboxes = [session.sandbox(container_image=f"{registry.host}/image:latest") for _ in range(3)]
    for sandbox in sandboxes:
        assert sandbox.exec(["cat", "/etc/motd"]).result().stdout == "from the registry\n"
    assert registry.count("/blobs/") == len(image.blobs)
    assert registry.count("/manifests/") == 1


def test_a_program_learns_from_its_sandbox_why_there_is_no_image(session: Session, registry: ScriptedRegistry) -> None:
    sandbox = session.sandbox(container_image=f"{registry.host}/image:latst")
    with pytest.raises(SandboxValidationError, match=r"no tag 'latst'; did you mean 'latest'\?"):
        sandbox.exec(["true"]).result()


def test_a_command_pulls_an_image_before_it_starts_and_names_its_digest(
    registry: ScriptedRegistry,
) -> None:
    told: list[Event] = []
    image = make_image({"etc/other": b"other"})
    registry.add(image)
    name = f"{registry.host}/image"
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL, image=name, emit=told.append)
    assert connection.image == f"{name}:latest@{image.digest}"
    assert any(isinstance(event, ImageProgress) for event in told)
    assert [event.image for event in told if isinstance(event, RuntimeChosen)] == [connection.image]
    asked = len(registry.asked)
    assert connect(load_settings(), runtime=RuntimeKind.LOCAL, image=name).image == connection.image
    assert len(registry.asked) == asked


def test_without_a_network_the_interpreter_of_this_machine_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for name, proposal in ((f"python:{own}-slim", f"host:{own} is the Python {own} of this machine; "), ("x:1", "")):
        with pytest.raises(ServiceError, match=f"^{name}: .* cannot be reached") as caught:
            connect(load_settings(), runtime=RuntimeKind.LOCAL, image=name)
        assert (caught.value.hint or "").startswith(f"{proposal}check the name")


@pytest.mark.parametrize("name", ["host", "python:3.11"])
def test_the_host_s_system_is_pulled_from_nowhere(name: str) -> None:
    assert connect(load_settings(), runtime=RuntimeKind.LOCAL, image=name).image == name
