"""Sandboxes that exist, whoever made them: seen, entered and stopped through the SDK's own calls.

The design decision: the service is the only truth about what exists, so everything is asked of it anew, and both
runtimes are asked with the same calls. The SDK's handles keep less than the service answers (no lifetime, no end, no
exit code); a subclass of its `Sandbox` keeps the answer itself, so that nothing is asked twice.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sandrl import forks
from sandrl.addresses import without_credentials
from sandrl.errors import InfrastructureError, NotRunningError, SandrlError, UnknownSandboxError
from sandrl.sandboxes.connection import Connection
from sandrl.sandboxes.sdk import SdkSession, credentials, go_round_proxies, load_sdk

if TYPE_CHECKING:
    from cwsandbox import Process, Sandbox

REQUEST_TIMEOUT_SECONDS = 20.0
"""How long one question to the service may take, all pages of a listing together."""

_LOG_TIMEOUT_SECONDS = 300.0

PENDING_STATUSES = frozenset({"pending", "creating", "preparing"})
ENDED_STATUSES = frozenset({"completed", "failed", "terminated"})
STATUSES = ("pending", "creating", "preparing", "running", "paused", "terminating", "completed", "failed", "terminated")


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox as the service describes it.

    Attributes:
        id: Its id.
        status: One of `STATUSES`, or `unspecified`.
        reason: What the service says about the status.
        tags: As they are stored.
        created_at: UTC, like all times here; None where the service does not tell.
        started_at: When it ran.
        ended_at: When it ended.
        max_lifetime_seconds: After this the service ends it; 0 if it does not tell.
        image: Its container image.
        resources: What it may use, by name.
        exit_code: Of its main program, once that has ended.
        runner: Where it is.
    """

    id: str
    status: str
    reason: str = ""
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    max_lifetime_seconds: float = 0.0
    image: str = ""
    resources: tuple[tuple[str, str], ...] = ()
    exit_code: int | None = None
    runner: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it is left to stop."""
        return self.status in ENDED_STATUSES

    @property
    def expires_at(self) -> datetime | None:
        """When its lifetime is over; it counts from the start, or from the creation of one that has not started."""
        since = self.started_at or self.created_at
        if since is None or not self.max_lifetime_seconds:
            return None
        return since + timedelta(seconds=self.max_lifetime_seconds)

    def age_seconds(self, at: datetime) -> float | None:
        """How long ago it was created."""
        return None if self.created_at is None else max((at - self.created_at).total_seconds(), 0.0)


class Fleet:
    """All sandboxes of one runtime.

    Args:
        connection: The runtime.
    """

    def __init__(self, connection: Connection) -> None:
        forks.begin_grpc()
        self.connection = connection
        if connection.is_local:
            go_round_proxies()
        self._sandbox = _observed_sandbox()
        self._handles: dict[str, Any] = {}
        self._place: dict[str, Any] = {
            "base_url": connection.base_url,
            "auth": credentials(load_sdk(), connection),
            "data_plane_mode": "gateway" if connection.is_local else "auto",
            "timeout_seconds": REQUEST_TIMEOUT_SECONDS,
        }

    def list(self, *, tags: Sequence[str] = (), ended: bool = False) -> list[SandboxInfo]:
        """The sandboxes with all these tags, every page of them, oldest first.

        Args:
            tags: Encoded tags.
            ended: Also those that have ended and are still remembered.

        Raises:
            ServiceError: If the service does not answer or refuses.
        """
        with self._translated():
            found = self._sandbox.list(tags=list(tags), show_terminated=ended, **self._place).result()
        return sorted((self._seen(handle) for handle in found), key=_age_order)

    def get(self, sandbox_id: str) -> SandboxInfo:
        """One sandbox, living or still remembered.

        Raises:
            UnknownSandboxError: If there is none of that id.
            ServiceError: If the service does not answer or refuses.
        """
        with self._translated(sandbox_id):
            return self._seen(self._sandbox.from_id(sandbox_id, **self._place).result())

    def stop(self, sandbox_id: str) -> Future[None]:
        """Begins to stop a sandbox that was listed or got; done when it is gone, see `stop_error`."""
        operation = self._handles[sandbox_id].stop(graceful_shutdown_seconds=0)
        future: Future[None] = operation._future
        return future

    def stop_error(self, sandbox_id: str, ended: Future[None]) -> SandrlError | None:
        """Why an ended stop failed; None if it did not, `UnknownSandboxError` if there was nothing to stop."""
        try:
            with self._translated(sandbox_id):
                ended.result()
        except SandrlError as error:
            return error
        return None

    def execute(self, sandbox_id: str, argv: Sequence[str], *, stdin: bool, timeout_seconds: float) -> Process:
        """Starts a program in a sandbox that was got.

        Args:
            sandbox_id: Where.
            argv: Program and arguments.
            stdin: Whether something will be written to its standard input; otherwise that is at its end.
            timeout_seconds: After this it is killed.
        """
        process: Process = self._handles[sandbox_id].exec(list(argv), stdin=stdin, timeout_seconds=timeout_seconds)
        return process

    def logs(self, sandbox_id: str, *, follow: bool = False, tail_lines: int | None = None) -> Iterator[str]:
        """The output of a sandbox's main program, in pieces as they come.

        Args:
            sandbox_id: Whose; it must have been got.
            follow: Wait for more until it ends.
            tail_lines: Begin so many lines before the end.

        Raises:
            NotRunningError: If the sandbox has ended and its output is gone.
            ServiceError: If the service does not answer or refuses.
        """
        with self._translated(sandbox_id):
            yield from self._handles[sandbox_id].stream_logs(
                follow=follow, tail_lines=tail_lines, timeout_seconds=None if follow else _LOG_TIMEOUT_SECONDS
            )

    def translate(self, error: BaseException, sandbox_id: str = "") -> SandrlError:
        """The error of sandrl that stands for one of the SDK about a sandbox."""
        sdk = load_sdk()
        if isinstance(error, sdk.SandboxNotFoundError):
            return UnknownSandboxError(sandbox_id)
        if isinstance(error, sdk.SandboxNotRunningError) and not isinstance(error, sdk.SandboxUnavailableError):
            return NotRunningError(sandbox_id)
        translated = SdkSession.translate(error)
        if isinstance(translated, InfrastructureError) and translated.hint is None:
            address = without_credentials(self.connection.base_url)
            translated.hint = (
                "sandrl runtime logs may tell why; sandrl runtime stop ends it and its sandboxes"
                if self.connection.is_local
                else f"is {address} the right address? --runtime local asks this machine instead"
            )
        return translated

    @contextmanager
    def _translated(self, sandbox_id: str = "") -> Iterator[None]:
        try:
            yield
        except (load_sdk().CWSandboxError, TimeoutError) as error:
            raise self.translate(error, sandbox_id) from error

    def _seen(self, handle: Sandbox) -> SandboxInfo:
        info = _described(handle)
        self._handles[info.id] = handle
        return info


@functools.cache
def _observed_sandbox() -> Any:
    """The SDK's `Sandbox` that keeps what the service last said of it."""

    class Observed(load_sdk().Sandbox):  # type: ignore[misc] # the SDK is imported on use
        def _apply_status_echo(self, view: Any) -> None:
            super()._apply_status_echo(view)
            self.answer = view._sandbox

    return Observed


def _described(handle: Any) -> SandboxInfo:
    spec, status = handle.answer.spec, handle.answer.status
    container = next(
        (each for each in spec.containers if each.primary), spec.containers[0] if spec.containers else None
    )
    return SandboxInfo(
        id=handle.answer.sandbox_id,
        status=handle.status.value if handle.status is not None else "unspecified",
        reason=status.state_reason,
        tags=tuple(spec.tags),
        created_at=_moment(status, "create_time"),
        started_at=_moment(status, "start_time"),
        ended_at=_moment(status, "end_time"),
        max_lifetime_seconds=float(status.effective_max_lifetime_seconds),
        image=container.image if container is not None else "",
        resources=_resources(handle),
        exit_code=status.exit_code if status.HasField("exit_code") else None,
        runner=status.runner_id,
    )


def _resources(handle: Any) -> tuple[tuple[str, str], ...]:
    limits = handle.resource_limits
    if limits is None:
        # The SDK looks here only where the service says nothing of requirements, be they empty.
        effective = handle.answer.status.effective_resources
        limits = {name: value for name in ("cpu", "memory") if (value := getattr(effective, name))}
    return tuple(sorted((str(name), str(value)) for name, value in limits.items()))


def _moment(status: Any, name: str) -> datetime | None:
    return getattr(status, name).ToDatetime(tzinfo=UTC) if status.HasField(name) else None


def _age_order(info: SandboxInfo) -> tuple[datetime, str]:
    return info.created_at or datetime.min.replace(tzinfo=UTC), info.id
