"""Loading the `cwsandbox` SDK, and the translation of its errors.

The SDK's errors become sandrl's here, once, each with its cause.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from datetime import timedelta
from types import ModuleType
from typing import Any, TypeVar

from sandrl.errors import (
    AuthenticationError,
    InfrastructureError,
    NoRoomError,
    NotRunningError,
    SandrlError,
    UnknownSandboxError,
    UsageError,
)
from sandrl.runtime import limits

Value = TypeVar("Value")

_BASE_URL_VARIABLE = "CWSANDBOX_BASE_URL"
_NO_PROXY_VARIABLE = "no_grpc_proxy"
# Besides the status RESOURCE_EXHAUSTED; these may come as UNAVAILABLE.
_NO_ROOM_REASONS = frozenset({"CWSANDBOX_RUNNER_CAPACITY_EXHAUSTED", "CWSANDBOX_RUNNER_OVERLOADED"})
# What a request asks for is not to be had: of this machine never, of the service not now.
_NO_RUNNER = "CWSANDBOX_NO_SUITABLE_RUNNER"
# How gRPC says that it never got a connection.
_NEVER_CONNECTED = ("failed to connect to all addresses", "DNS resolution failed")
# The status INTERNAL that grpc.aio itself gives a call whose connection broke while a message was handed over.
_BROKE_WHILE_SENDING = "Internal error from Core"


class _LeftoverTasks(logging.Filter):
    # Drops complaints about commands that end in an error of their own while they are being cancelled.

    def filter(self, record: logging.LogRecord) -> bool:
        return "Sandbox._exec_streaming_async" not in record.getMessage()


def load_sdk() -> ModuleType:
    """Imports the SDK; sandrl handles signals itself, so the SDK's handlers are disabled."""
    os.environ["CWSANDBOX_DISABLE_SIGNAL_HANDLERS"] = "1"
    import cwsandbox

    _forget_loop_after_fork()
    logger = logging.getLogger("asyncio")
    if not any(isinstance(present, _LeftoverTasks) for present in logger.filters):
        logger.addFilter(_LeftoverTasks())
        # What the SDK warns of (mostly stops that failed) is raised as an error, too. Without a handler, Python would
        # print each warning with a traceback.
        logging.getLogger("cwsandbox").addHandler(logging.NullHandler())
    return cwsandbox


@functools.cache
def _forget_loop_after_fork() -> None:
    # The thread of the SDK's event loop is not in a forked child, and what waits for it never ends. The SDK stops its
    # sessions at the end of the process, on that loop. They are the parent's.
    from cwsandbox import _loop_manager

    def forget() -> None:
        _loop_manager._LoopManager._instance = None
        _loop_manager._LoopManager._instance_lock = threading.Lock()

    os.register_at_fork(after_in_child=forget)


def translated(
    operation: Any,
    convert: Callable[[Any], Value],
    translate: Callable[[BaseException], Exception],
    late: Value | None = None,
) -> Future[Value]:
    """A future of ours for an operation of the SDK; cancelling it cancels that.

    Args:
        late: Our value for a command that exceeded its timeout, for which the SDK has an error.
    """
    ours: Future[Value] = Future()
    theirs: Future[Any] = operation._future

    def end(_: Future[Any]) -> None:
        if not ours.set_running_or_notify_cancel():
            return
        try:
            ours.set_result(convert(theirs.result()))
        except (load_sdk().CWSandboxError, CancelledError, TimeoutError) as error:
            if late is not None and is_command_timeout(error):
                ours.set_result(late)
                return
            translation = translate(error)
            translation.__cause__ = error
            ours.set_exception(translation)
        except Exception as error:  # noqa: BLE001 - whoever waits must get an answer, and this is one
            ours.set_exception(error)

    theirs.add_done_callback(end)
    ours.add_done_callback(lambda ended: theirs.cancel() if ended.cancelled() else None)
    return ours


def translate(error: BaseException, *, is_local: bool = False) -> SandrlError:
    """The error of sandrl that stands for one of the SDK.

    Args:
        is_local: Whether it came from the daemon of the local runtime, whose errors have more details.
    """
    sdk: Any = load_sdk()
    message = _one_line(error)
    if isinstance(error, sdk.CWSandboxAuthenticationError):
        return AuthenticationError(message, hint="check the credentials, or use `runtime` local", fields=("runtime",))
    if isinstance(error, sdk.CWSandboxValidationError):
        reasons = [violation.description for violation in error.field_violations if violation.description]
        return UsageError(f"the sandbox service refuses the request: {reasons[0] if reasons else message}")
    if is_local and getattr(error, "reason", None) == _NO_RUNNER:
        return UsageError(f"the local runtime refuses the request: {message}")
    if isinstance(error, CancelledError):
        return InfrastructureError("the execution was cancelled")
    if isinstance(error, sdk.SandboxResourceExhaustedError) or getattr(error, "reason", None) in _NO_ROOM_REASONS:
        hint: timedelta | None = getattr(error, "retry_delay", None)
        return NoRoomError(message, retry_seconds=None if hint is None else max(hint.total_seconds(), 0.0))
    if isinstance(error, TimeoutError):
        return InfrastructureError("the sandbox service did not answer in time")
    infrastructure = InfrastructureError(message)
    infrastructure.lost_runtime = _lost_runtime(error, is_local)
    infrastructure.never_reached = _never_connected(error)
    return infrastructure


def translate_about(sandbox_id: str, error: BaseException, *, is_local: bool) -> SandrlError:
    """The same for a call about a sandbox that was listed or found."""
    sdk: Any = load_sdk()
    if isinstance(error, sdk.SandboxNotFoundError):
        return UnknownSandboxError(sandbox_id)
    if isinstance(error, sdk.SandboxNotRunningError) and not isinstance(error, sdk.SandboxUnavailableError):
        return NotRunningError(sandbox_id)
    return translate(error, is_local=is_local)


def translate_of_file(path: str, error: BaseException, *, is_local: bool) -> Exception:
    """The same for an operation on a file."""
    number = limits.FILE_ERRORS.get(getattr(error, "reason", None) or "")
    return translate(error, is_local=is_local) if number is None else OSError(number, os.strerror(number), path)


def is_command_timeout(error: BaseException) -> bool:
    """Whether an error of the SDK says that a command, and not a transport, ran too long."""
    sdk: Any = load_sdk()
    if isinstance(error, sdk.SandboxCommandTimeoutError):
        return True
    # The SDK has one class for both; only the first says so.
    return (
        isinstance(error, sdk.SandboxTimeoutError)
        and not isinstance(error, sdk.SandboxRequestTimeoutError)
        and str(error).startswith("Command ")
        and " timed out after " in str(error)
    )


def _never_connected(error: BaseException) -> bool:
    # Whether there was no connection at all; the SDK has one class for that and for one that broke.
    return (
        isinstance(error, load_sdk().SandboxUnavailableError)
        and getattr(error, "reason", None) is None
        and any(words in str(error) for words in _NEVER_CONNECTED)
    )


def _lost_runtime(error: BaseException, is_local: bool) -> bool:
    if limits.LOST_METADATA in (getattr(error, "metadata", None) or ()):
        return True
    if limits.LOST_REASON in (getattr(error, "status_reason", None) or ""):
        return True
    if not is_local or getattr(error, "reason", None) is not None:
        return False
    # What the daemon refuses has a reason; what has none is the connection's own end.
    return isinstance(error, load_sdk().SandboxUnavailableError) or _BROKE_WHILE_SENDING in str(error)


def _one_line(error: BaseException | None) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def addressed_to(base_url: str) -> Iterator[None]:
    """Sends the calls of a sandbox to its session's address, which the environment variable would override."""
    other = os.environ.get(_BASE_URL_VARIABLE)
    if other is None or other == base_url:
        yield
        return
    os.environ[_BASE_URL_VARIABLE] = base_url
    try:
        yield
    finally:
        os.environ[_BASE_URL_VARIABLE] = other


def go_round_proxies() -> None:
    """Keeps gRPC from asking a proxy for 127.0.0.1; it reads only the first of these that is set."""
    skipped = os.environ.get(_NO_PROXY_VARIABLE) or os.environ.get("no_proxy") or ""
    hosts = [host for host in skipped.split(",") if host]
    if "127.0.0.1" not in hosts:
        os.environ[_NO_PROXY_VARIABLE] = ",".join([*hosts, "127.0.0.1"])
