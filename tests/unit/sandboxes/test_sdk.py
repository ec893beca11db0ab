"""What the adapter makes of the SDK's errors and of the environment."""

from __future__ import annotations

import os
from concurrent.futures import CancelledError

import pytest

from sandrl.errors import AuthenticationError, InfrastructureError, SandrlError, UsageError
from sandrl.sandboxes.connection import Connection
from sandrl.sandboxes.sdk import SdkSession, is_command_timeout, load_sdk
from sandrl.sandboxes.tags import checked_job_id, new_job_id
from sandrl.settings import RuntimeKind

sdk = load_sdk()


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> SdkSession:
    """A session of a runtime that nobody will call."""
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "internal.test")
    local = Connection(RuntimeKind.LOCAL, "a test", "http://127.0.0.1:1", "python:3.11", token="t")
    return SdkSession(local, tags=["a-tag"], max_lifetime_seconds=60)


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
        (sdk.SandboxResourceExhaustedError("full"), InfrastructureError),
        (sdk.SandboxExecutionError("ended without an exit status"), InfrastructureError),
        (CancelledError(), InfrastructureError),
        (TimeoutError(), InfrastructureError),
    ],
)
def test_every_error_of_the_sdk_has_one_of_ours(session: SdkSession, error: Exception, kind: type[SandrlError]) -> None:
    translated = session.translate(error)
    assert type(translated) is kind
    assert translated.message


def test_a_refused_request_says_which_field_once(session: SdkSession) -> None:
    violation = sdk.FieldViolation("image", "image 'x' is not available")
    translated = session.translate(sdk.SandboxValidationError("long story", field_violations=[violation]))
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


@pytest.mark.usefixtures("session")
def test_no_proxy_is_asked_for_the_local_runtime() -> None:
    assert os.environ["no_grpc_proxy"] == "internal.test,127.0.0.1"  # noqa: SIM112


def test_the_sdk_leaves_signals_alone() -> None:
    assert os.environ["CWSANDBOX_DISABLE_SIGNAL_HANDLERS"] == "1"


def test_job_ids_are_tags_as_they_are() -> None:
    assert checked_job_id(new_job_id()).startswith("job-")
    assert checked_job_id("nightly.3") == "nightly.3"
    for bad in ("", "a b", "-x", "x" * 64, "ü"):
        with pytest.raises(UsageError, match="cannot be a tag"):
            checked_job_id(bad)
