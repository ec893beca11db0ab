"""Which runtime is chosen, and what the record of it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandrl.errors import AuthenticationError
from sandrl.events import Event, RuntimeChosen
from sandrl.sandboxes.connection import absence, connect, find_connection
from sandrl.sandboxes.providers import find_provider, remote
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.sandboxes.providers.cwsandbox.sdk import load_sdk
from sandrl.sandboxes.providers.protocol import Packages
from sandrl.settings import RuntimeKind, Settings


def settings(tmp_path: Path, **environment: str) -> Settings:
    return Settings.from_environment({"SANDRL_STATE_DIR": str(tmp_path), **environment})


def test_a_key_means_the_remote_service(tmp_path: Path) -> None:
    told: list[Event] = []
    connection = connect(settings(tmp_path, CWSANDBOX_API_KEY="key-1234"), emit=told.append)
    assert isinstance(connection, SdkConnection)
    assert (connection.kind, connection.token, connection.address) == (RuntimeKind.REMOTE, "key-1234", remote.BASE_URL)
    assert told == [RuntimeChosen("remote", "CWSANDBOX_API_KEY is set", remote.BASE_URL, remote.IMAGE)]


def test_the_older_variables_are_understood(tmp_path: Path) -> None:
    older = settings(tmp_path, AVIATO_API_KEY="key-1234", AVIATO_BASE_URL="https://example.test")
    connection = connect(older, image="mine:1")
    assert isinstance(connection, SdkConnection)
    assert (connection.token, connection.address, connection.image) == ("key-1234", "https://example.test", "mine:1")


def test_the_remote_service_without_credentials_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(AuthenticationError) as caught:
        connect(settings(tmp_path), runtime=RuntimeKind.REMOTE)
    assert "`runtime` local" in (caught.value.hint or "")


def test_packages_of_problems_are_named_as_the_index_of_packages_names_them(tmp_path: Path) -> None:
    packages = Packages(("numpy>=2", "<3"), ("yaml", "json", "pandas"))
    connection = connect(settings(tmp_path, CWSANDBOX_API_KEY="key-1234"), packages=packages)
    assert connection.packages == Packages(("numpy<3,>=2",), ("pyyaml", "pandas"))


def test_no_secret_is_in_the_representation(tmp_path: Path) -> None:
    assert "key-1234" not in repr(connect(settings(tmp_path, CWSANDBOX_API_KEY="key-1234")))


def test_our_defaults_are_the_sdks() -> None:
    defaults = load_sdk().SandboxDefaults()
    assert (defaults.base_url, defaults.container_image) == (remote.BASE_URL, remote.IMAGE)


@pytest.mark.parametrize("kind", [kind for kind in RuntimeKind if kind is not RuntimeKind.AUTO])
def test_every_runtime_names_a_provider_that_is_chosen_by_its_name(kind: RuntimeKind, tmp_path: Path) -> None:
    assert find_provider(kind) is find_provider(kind)
    assert settings(tmp_path, CWSANDBOX_API_KEY="key-1234").choose_runtime(kind).kind is kind


def test_a_runtime_that_cannot_be_listed_says_why(tmp_path: Path) -> None:
    nothing = settings(tmp_path)
    for kind in (RuntimeKind.LOCAL, RuntimeKind.DAEMONLESS):
        assert find_connection(nothing, runtime=kind) is None
    assert absence(nothing, runtime=RuntimeKind.LOCAL) == "The local runtime is not running, so it has no sandboxes."
    assert absence(nothing, runtime=RuntimeKind.DAEMONLESS).endswith("Commands that have such sandboxes now: none.")
