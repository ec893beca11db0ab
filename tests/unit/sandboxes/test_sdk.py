"""What the adapter makes of the SDK's errors and of the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from sandrl.errors import (
    AuthenticationError,
    InfrastructureError,
    NoRoomError,
    NotRunningError,
    SandrlError,
    UnknownSandboxError,
    UsageError,
)
from sandrl.runtime.limits import STORAGE_ANNOTATION
from sandrl.runtime.network import Network
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection, SdkSandbox
from sandrl.sandboxes.providers.cwsandbox.sdk import (
    is_command_timeout,
    load_sdk,
    translate,
    translate_about,
    translate_of_file,
)
from sandrl.sandboxes.shape import Shape
from sandrl.sandboxes.tags import checked_job_id, new_job_id
from sandrl.settings import NetworkMode, RuntimeKind

sdk = load_sdk()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sdk.CWSandboxAuthenticationError("no"), AuthenticationError),
        (
            sdk.SandboxValidationError("bad", field_violations=[sdk.FieldViolation("image", "no such image")]),
            UsageError,
        ),
        (sdk.SandboxUnavailableError("gone"), InfrastructureError),
        (sdk.SandboxNotRunningError("stopped"), InfrastructureError),
        (sdk.SandboxFailedError("boot"), InfrastructureError),
        (sdk.SandboxRequestTimeoutError("slow"), InfrastructureError),
        (sdk.SandboxResourceExhaustedError("full"), NoRoomError),
        (sdk.SandboxUnavailableError("busy", reason="CWSANDBOX_RUNNER_OVERLOADED"), NoRoomError),
        (sdk.SandboxExecutionError("ended without an exit status"), InfrastructureError),
        (CancelledError(), InfrastructureError),
        (TimeoutError(), InfrastructureError),
    ],
)
def test_every_error_of_the_sdk_has_one_of_ours(error: Exception, kind: type[SandrlError]) -> None:
    translated = translate(error)
    assert type(translated) is kind
    assert translated.message


def test_a_refused_request_says_which_field_once() -> None:
    violation = sdk.FieldViolation("image", "image 'x' is not available")
    translated = translate(sdk.SandboxValidationError("long story", field_violations=[violation]))
    assert translated.message == "the sandbox service refuses the request: image 'x' is not available"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (sdk.SandboxTimeoutError("Command python -c x timed out after 12.0s"), True),
        (sdk.SandboxCommandTimeoutError("deadline"), True),
        (sdk.SandboxTimeoutError("stdin ready signal not received within timeout"), False),
        (sdk.SandboxTimeoutError("Timed out connecting to streaming service at 127.0.0.1:1"), False),
        (sdk.SandboxTimeoutError("Sandbox x did not become ready within 300s"), False),
        (sdk.SandboxRequestTimeoutError("Command x timed out after 3s"), False),
        (sdk.SandboxUnavailableError("gone"), False),
    ],
)
def test_only_a_command_that_ran_too_long_is_a_timeout(error: Exception, expected: bool) -> None:
    assert is_command_timeout(error) is expected


def test_a_runtime_that_was_never_reached_is_told_from_one_that_broke() -> None:
    never = translate(sdk.SandboxUnavailableError("failed to connect to all addresses"))
    broke = translate(sdk.SandboxUnavailableError("Socket closed"))
    assert isinstance(never, InfrastructureError)
    assert isinstance(broke, InfrastructureError)
    assert (never.never_reached, broke.never_reached) == (True, False)


@pytest.mark.parametrize(
    "error",
    [
        sdk.SandboxUnavailableError("Socket closed"),
        sdk.SandboxExecutionError("Execute command failed: Internal error from Core"),
    ],
)
def test_the_end_of_a_connection_is_the_end_of_the_daemon_but_not_of_the_service(error: Exception) -> None:
    for is_local in (True, False):
        translated = translate(error, is_local=is_local)
        assert isinstance(translated, InfrastructureError)
        assert translated.lost_runtime is is_local


def test_what_asks_about_one_sandbox_tells_a_missing_one_from_an_ended_one() -> None:
    assert isinstance(translate_about("x", sdk.SandboxNotFoundError("x"), is_local=True), UnknownSandboxError)
    assert isinstance(translate_about("x", sdk.SandboxNotRunningError("x"), is_local=True), NotRunningError)


def test_an_error_about_a_file_is_the_one_that_python_has() -> None:
    missing = translate_of_file("/x", sdk.SandboxFileError("no", reason="CWSANDBOX_FILE_NOT_FOUND"), is_local=True)
    assert isinstance(missing, FileNotFoundError)


def test_no_proxy_is_asked_for_the_local_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "internal.test")
    local = SdkConnection(
        kind=RuntimeKind.LOCAL, reason="", address="http://127.0.0.1:1", image="", is_local=True, token="t"
    )
    local.open()
    assert os.environ["no_grpc_proxy"] == "internal.test,127.0.0.1"  # noqa: SIM112


def test_the_sdk_leaves_signals_alone() -> None:
    assert os.environ["CWSANDBOX_DISABLE_SIGNAL_HANDLERS"] == "1"


def test_job_ids_are_tags_as_they_are() -> None:
    assert checked_job_id(new_job_id()).startswith("job-")
    assert checked_job_id("nightly.3") == "nightly.3"
    for bad in ("", "a b", "-x", "x" * 64, "ü"):
        with pytest.raises(UsageError, match="is not a valid tag"):
            checked_job_id(bad)


@pytest.mark.parametrize(
    ("is_local", "cells", "sent"), [(True, 4, {"sandrl.dev/cells": "4"}), (True, 0, {}), (False, 4, {})]
)
def test_only_the_local_runtime_is_told_of_cells(is_local: bool, cells: int, sent: dict[str, str]) -> None:
    connection = SdkConnection(
        kind=RuntimeKind.LOCAL if is_local else RuntimeKind.REMOTE,
        reason="a test",
        address="http://127.0.0.1:1",
        image="python:3.11",
        is_local=is_local,
        token="x",
    )
    client = connection.open()
    try:
        sandbox = client.create((), cells=cells)
        assert isinstance(sandbox, SdkSandbox)
        assert sandbox._handle._annotations == sent
    finally:
        client.abandon()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """What the SDK is asked for a sandbox of a shape."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(sdk.Session, "sandbox", lambda _, **options: given.update(options))

    def of(shape: Shape, *, is_local: bool = True, network: Network | None = None) -> dict[str, Any]:
        given.clear()
        connection = SdkConnection(
            kind=RuntimeKind.LOCAL if is_local else RuntimeKind.REMOTE,
            reason="a test",
            address="http://127.0.0.1:1",
            image="python:3.11",
            is_local=is_local,
            network=network,
            token="x",
        )
        client = connection.open(max_lifetime_seconds=100)
        try:
            client.create((), shape=shape)
        finally:
            client.abandon()
        return given

    return of


def test_a_shape_is_sent_in_the_words_of_the_sdk(sent: Callable[..., dict[str, Any]]) -> None:
    shape = Shape(
        "mine:2",
        memory_bytes=1 << 30,
        processors=1.5,
        storage_bytes=5 << 30,
        network=Network.of(NetworkMode.ALLOWLIST, ["example.org", "other.example:8080"]),
        variables=(("A", "b"),),
        directory="/app",
        as_root=True,
    )
    amounts = {"memory": str(1 << 30), "cpu": "1500m"}
    assert sent(shape) == {
        "tags": [],
        "container_image": "mine:2",
        "resources": sdk.ResourceOptions(requests=amounts, limits=amounts),
        "environment_variables": {"A": "b"},
        "working_dir": "/app",
        "security_context": sdk.SecurityContext(run_as_user=0),
        "network": sdk.NetworkOptions(egress=[sdk.EgressRule(dns_name="example.org")]),
        "annotations": {
            "sandrl.dev/storage": str(5 << 30),
            "sandrl.dev/pretends-owners": "yes",
            "sandrl.dev/allowed-hosts": "other.example:8080",
        },
    }
    assert STORAGE_ANNOTATION not in sent(shape, is_local=False)["annotations"]
    assert sent(Shape("mine:2")) == {"tags": [], "container_image": "mine:2"}


def test_a_network_of_a_shape_replaces_that_of_the_job(sent: Callable[..., dict[str, Any]]) -> None:
    of_job = Network.of(NetworkMode.ALLOWLIST, ["wide.example:8080"], ["10.0.0.1:80"])
    given = sent(Shape(network=Network()), network=of_job)
    assert given["network"] == sdk.NetworkOptions(deny_egress=True)
    assert set(given["annotations"].values()) == {""}


def test_gpus_are_asked_for_where_there_may_be_some(sent: Callable[..., dict[str, Any]]) -> None:
    assert sent(Shape(gpus=2), is_local=False)["resources"].gpu == {"count": 2}
    with pytest.raises(UsageError, match=r"GPUs \(2\) are requested"):
        sent(Shape(gpus=2))
