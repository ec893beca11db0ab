"""The adapter of the `cwsandbox` SDK: the only module that imports it.

The design decision: one sandbox per command, with as few round trips as the SDK allows. Nothing is created, started
or waited for one by one: `exec` on a lazy sandbox creates it, waits for it and runs the command, all on the SDK's
own event loop, while the calling thread hands over the next one. Stops run there too and are collected in batches.

What ends first is learned from the SDK's `wait`, but not by giving it every process in flight: each call leaves a
task per process behind, and every channel that is closed walks all tasks, so its cost grows with the square of the
concurrency (measured at 128: 16 ms of processor time per completion, against 5). It is given one operation that any
end completes.

The SDK's errors become sandrl's here, once, each with its cause.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sandrl import forks
from sandrl.errors import AuthenticationError, InfrastructureError, SandrlError, UsageError
from sandrl.runtime import limits
from sandrl.sandboxes.commands import Command, Outcome
from sandrl.sandboxes.connection import Connection
from sandrl.sandboxes.interrupt import Interrupt, Level

if TYPE_CHECKING:
    from cwsandbox import OperationRef, Process, Sandbox

_BASE_URL_VARIABLE = "CWSANDBOX_BASE_URL"
_NO_PROXY_VARIABLE = "no_grpc_proxy"
_NOBODYS_TAG = "is-anybody-there"
# Besides the status RESOURCE_EXHAUSTED; these may come as UNAVAILABLE.
_NO_ROOM_REASONS = frozenset({"CWSANDBOX_RUNNER_CAPACITY_EXHAUSTED", "CWSANDBOX_RUNNER_OVERLOADED"})
# How gRPC says that it never got a connection.
_NEVER_CONNECTED = ("failed to connect to all addresses", "DNS resolution failed")


class _LeftoverTasks(logging.Filter):
    """Drops complaints about tasks whose errors nobody asks for.

    They are those that the SDK's `wait` leaves behind, whose errors are met in `collect`, and commands that end in an
    error of their own while they are being cancelled.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return "_wait_async.<locals>._wrap_future" not in message and "Sandbox._exec_streaming_async" not in message


def load_sdk() -> ModuleType:
    """Imports the SDK; sandrl handles signals itself, so the SDK's handlers stay out."""
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
    """Makes forked children forget the SDK's event loop: its thread is not in them, and what waits for it never ends.

    The SDK stops its sessions at the end of the process, on that loop. They are the parent's.
    """
    from cwsandbox import _loop_manager

    def forget() -> None:
        _loop_manager._LoopManager._instance = None
        _loop_manager._LoopManager._instance_lock = threading.Lock()

    os.register_at_fork(after_in_child=forget)


@dataclass(slots=True, eq=False)
class Launch:
    """A command on its way: a sandbox of its own, and the process in it; neither while it waits to be sent.

    Attributes:
        key: Names the launch in the ledger.
        command: What to run.
        tags: Tags of its sandbox beyond those of the session, encoded.
        may_be_warm: Whether it may take a sandbox that stands ready.
        base_url: The runtime it was sent to; empty before that.
        sandbox_id: Known once the sandbox exists and the launch was looked at.
    """

    key: str
    command: Command
    tags: tuple[str, ...] = ()
    may_be_warm: bool = False
    base_url: str = ""
    sandbox: Sandbox | None = field(default=None, repr=False)
    process: Process | None = field(default=None, repr=False)
    start: OperationRef[None] | None = field(default=None, repr=False)
    launched_at: float = 0.0
    launched_time: datetime | None = None

    @property
    def startup_seconds(self) -> float | None:
        """From asking for the sandbox until it ran, by the service's clock and ours; None if it never did."""
        started = None if self.sandbox is None else self.sandbox.started_at
        if started is None or self.launched_time is None:
            return None
        if started.tzinfo is None:
            started = started.replace(tzinfo=UTC)
        # Clocks of two machines differ; no sandbox runs before it is asked for.
        return max((started - self.launched_time).total_seconds(), 0.0)

    @property
    def sandbox_id(self) -> str | None:
        """The sandbox's id, once it exists."""
        return None if self.sandbox is None else self.sandbox.sandbox_id

    @property
    def has_failed_to_start(self) -> bool:
        """Whether the sandbox was asked for ahead of its command, and refused."""
        if self.start is None or not self.start._future.done():
            return False
        return self.start._future.cancelled() or self.start._future.exception() is not None

    def cancel(self) -> None:
        """Cancels the command, if it was sent."""
        if self.process is not None:
            self.process.cancel()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The service had no room for a sandbox: a quota, a rate, or its capacity.

    Attributes:
        reason: What it says.
        hint_seconds: How long it asks to wait; None if it does not say.
    """

    reason: str
    hint_seconds: float | None


@dataclass(slots=True, eq=False)
class Stop:
    """A sandbox on its way out."""

    key: str
    base_url: str
    sandbox_id: str
    operation: OperationRef[None] = field(repr=False)
    is_watched: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether the sandbox is gone, or the attempt failed."""
        return self.operation._future.done()


class SdkSession:
    """One session of the SDK on one runtime.

    Args:
        connection: Where sandboxes come from.
        tags: The tags of every sandbox, encoded.
        max_lifetime_seconds: After this the service ends a sandbox whatever happens here.

    Attributes:
        base_url: The address of the runtime that what is launched now goes to.
    """

    def __init__(self, connection: Connection, *, tags: Sequence[str], max_lifetime_seconds: float) -> None:
        forks.begin_grpc()
        self._sdk = load_sdk()
        self._tags = tuple(tags)
        self._max_lifetime_seconds = max_lifetime_seconds
        self._ended: deque[Launch] = deque()
        self._bell: Future[None] = Future()
        self._sent = self._unconnected = 0
        self.direct_to(connection)

    def direct_to(self, connection: Connection) -> None:
        """Sends what is launched from here on to a runtime; what is in flight stays where it is."""
        self._is_local = connection.is_local
        if connection.is_local:
            go_round_proxies()
        self.base_url = connection.base_url
        self._defaults = self._sdk.SandboxDefaults(
            container_image=connection.image,
            base_url=connection.base_url,
            auth=credentials(self._sdk, connection),
            data_plane_mode="gateway" if connection.is_local else "auto",
            max_lifetime_seconds=self._max_lifetime_seconds,
            tags=self._tags,
            annotations=dict(connection.annotations),
        )
        # Metrics are sandrl's own; the SDK's reporter would look for W&B on every exec.
        self._session = self._sdk.Session(self._defaults, report_to=[])

    def send(self, launch: Launch, within: Launch | None = None) -> None:
        """Starts a fresh sandbox and the command in it, without waiting for either.

        Args:
            launch: What to send. One that was refused keeps its handle, and with it the name of the request: whatever
                became of the first, it makes no second sandbox.
            within: An ended launch in whose sandbox to run the command, instead of a fresh one.
        """
        if within is not None:
            launch.base_url, launch.sandbox = within.base_url, within.sandbox
        elif launch.sandbox is None or launch.base_url != self.base_url:
            launch.base_url, launch.sandbox = self.base_url, self._fresh_sandbox(launch.tags)
        assert launch.sandbox is not None, "ended launches have had one"
        command = launch.command
        launch.launched_at, launch.launched_time = time.monotonic(), datetime.now(UTC)
        process = launch.sandbox.exec(command.argv, stdin=True, timeout_seconds=command.timeout_seconds)
        assert process.stdin is not None, "it was asked for"
        if command.stdin:
            process.stdin.write(command.stdin)
        process.stdin.close()
        launch.process = process
        self._sent += 1
        process._future.add_done_callback(lambda ended: self._note_end(launch, ended))

    def prepare(self, launch: Launch) -> None:
        """Begins to create a launch's sandbox ahead of its command."""
        launch.base_url, launch.sandbox = self.base_url, self._fresh_sandbox(launch.tags)
        launch.launched_at = time.monotonic()
        self._sent += 1
        launch.start = launch.sandbox.start()
        launch.start._future.add_done_callback(lambda ended: self._note_reach(launch, ended))

    def _fresh_sandbox(self, tags: Sequence[str]) -> Sandbox:
        with _addressed_to(self.base_url):
            sandbox: Sandbox = self._session.sandbox(tags=list(tags))
        return sandbox

    @property
    def may_have_reached(self) -> bool:
        """Whether anything that was sent may have reached a service; if not, no sandbox was created."""
        return self._unconnected < self._sent

    def _note_reach(self, launch: Launch, ended: Future[Any]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if error is not None and launch.sandbox_id is None and self._never_connected(error):
            self._unconnected += 1

    def _never_connected(self, error: BaseException) -> bool:
        """Whether there was no connection at all; the SDK has one class for that and for one that broke."""
        return (
            isinstance(error, self._sdk.SandboxUnavailableError)
            and error.reason is None
            and any(words in str(error) for words in _NEVER_CONNECTED)
        )

    def _note_end(self, launch: Launch, ended: Future[Any]) -> None:
        self._note_reach(launch, ended)
        self._ended.append(launch)
        self._ring()

    def _ring(self) -> None:
        with suppress(InvalidStateError):
            self._bell.set_result(None)

    def wait_any(self, interrupt: Interrupt, seen: Level, timeout_seconds: float | None) -> list[Launch]:
        """Waits until at least one launch has ended, the user asks to stop, or the time is over.

        Args:
            interrupt: The user's wish to stop.
            seen: How far the caller has obeyed it already; only more than that ends the wait.
            timeout_seconds: How long to wait at most; None for ever.

        Returns:
            Those that have ended since the last call; none if something else came first, such as the end of a stop
            that is watched.
        """
        self._bell = interrupt.waker()
        # In this order: what happens from here on rings the new bell, what happened before shows here.
        try:
            if not self._ended and interrupt.level is seen and not interrupt.is_awake:
                self._sdk.wait([self._sdk.OperationRef(self._bell)], num_returns=1, timeout=timeout_seconds)
        finally:
            # Whoever still waits for it would do so for ever.
            self._ring()
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def refusal(self, launch: Launch) -> Refusal | None:
        """Why an ended launch got no sandbox, if that is for want of room; then it never ran."""
        if launch.process is None or launch.sandbox_id is not None or launch.process._future.cancelled():
            return None
        error = launch.process._future.exception()
        full = isinstance(error, self._sdk.SandboxResourceExhaustedError)
        if not full and getattr(error, "reason", None) not in _NO_ROOM_REASONS:
            return None
        hint: timedelta | None = getattr(error, "retry_delay", None)
        return Refusal(_one_line(error), None if hint is None else max(hint.total_seconds(), 0.0))

    def collect(self, launch: Launch) -> Outcome:
        """How an ended launch ended.

        Raises:
            InfrastructureError: If the sandbox failed, not the command.
            AuthenticationError: If the service refuses the credentials.
            UsageError: If the service refuses the request itself (an unknown image, impossible resources).
        """
        assert launch.process is not None, "what has ended was sent"
        try:
            result = launch.process.result()
        except (self._sdk.CWSandboxError, CancelledError) as error:
            if is_command_timeout(error):
                return Outcome(launch.sandbox_id or "", None, seconds=time.monotonic() - launch.launched_at)
            translated = self.translate(error)
            if isinstance(translated, InfrastructureError):
                translated.lost_runtime = self._lost_runtime(launch, error)
            raise translated from error
        seconds = time.monotonic() - launch.launched_at
        return Outcome(
            launch.sandbox_id or "", result.returncode, result.stdout_bytes, result.stderr_bytes, seconds=seconds
        )

    def _lost_runtime(self, launch: Launch, error: BaseException) -> bool:
        """Whether the local runtime says that it lost the sandbox, or is gone itself."""
        if self._is_local and launch.base_url != self.base_url:
            return True
        if limits.LOST_METADATA in (getattr(error, "metadata", None) or ()):
            return True
        if limits.LOST_REASON in (getattr(error, "status_reason", None) or ""):
            return True
        # What the daemon refuses has a reason; what has none is the connection's own end.
        return (
            self._is_local
            and isinstance(error, self._sdk.SandboxUnavailableError)
            and getattr(error, "reason", None) is None
        )

    def stop(self, launch: Launch) -> Stop:
        """Begins to stop a launch's sandbox; a command still running in it is killed."""
        assert launch.sandbox is not None, "what was not sent has none"
        operation = launch.sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True)
        return Stop(launch.key, launch.base_url, launch.sandbox_id or "", operation)

    def wait_stops(self, stops: Sequence[Stop], *, at_least: int, timeout_seconds: float | None) -> list[Stop]:
        """Waits until some stops have ended, however they did; returns those that have."""
        if not stops:
            return []
        operations = [stop.operation for stop in stops]
        done, _ = self._sdk.wait(operations, num_returns=at_least, timeout=timeout_seconds)
        ended = {id(operation) for operation in done}
        return [stop for stop in stops if id(stop.operation) in ended]

    def watch(self, stops: Iterable[Stop]) -> None:
        """Lets the end of stops end `wait_any`, too: someone waits for the room they make."""
        for stop in stops:
            if not stop.is_watched:
                stop.is_watched = True
                stop.operation._future.add_done_callback(lambda _: self._ring())

    def stop_error(self, stop: Stop) -> SandrlError | None:
        """Why an ended stop failed, or None if the sandbox is gone."""
        try:
            stop.operation.result()
        except (self._sdk.CWSandboxError, CancelledError) as error:
            return self.translate(error)
        return None

    def stop_tagged(self, tags: Sequence[str], timeout_seconds: float) -> int:
        """Stops every sandbox with all these tags; returns how many there were."""
        try:
            found = self._session.list(tags=list(tags)).result(timeout_seconds)
            operations = [sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True) for sandbox in found]
            self._sdk.wait(operations, timeout=timeout_seconds)
            self._sdk.results(operations)
        except (self._sdk.CWSandboxError, TimeoutError) as error:
            raise self.translate(error) from error
        return len(found)

    def ask(self, answered: Callable[[], None]) -> OperationRef[list[Sandbox]]:
        """Asks the runtime for something of no interest; `answered` is called on the SDK's thread with any answer."""
        question: OperationRef[list[Sandbox]] = self._session.list(tags=[_NOBODYS_TAG])
        question._future.add_done_callback(lambda _: answered())
        return question

    def close(self, timeout_seconds: float) -> None:
        """Ends the session; sandboxes it still holds are stopped."""
        try:
            self._session.close().result(timeout_seconds)
        except (self._sdk.CWSandboxError, TimeoutError) as error:
            raise self.translate(error) from error

    @staticmethod
    def translate(error: BaseException) -> SandrlError:
        """The error of sandrl that stands for one of the SDK."""
        sdk: Any = load_sdk()
        message = _one_line(error)
        if isinstance(error, sdk.CWSandboxAuthenticationError):
            return AuthenticationError(message, hint="check the credentials, or use --runtime local")
        if isinstance(error, sdk.CWSandboxValidationError):
            reasons = [violation.description for violation in error.field_violations if violation.description]
            return UsageError(f"the sandbox service refuses the request: {reasons[0] if reasons else message}")
        if isinstance(error, CancelledError):
            return InfrastructureError("the execution was cancelled")
        if isinstance(error, TimeoutError):
            return InfrastructureError("the sandbox service did not answer in time")
        return InfrastructureError(message)


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


def _one_line(error: BaseException | None) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _addressed_to(base_url: str) -> Iterator[None]:
    """Makes a sandbox go where its session says; without this the variable would beat it (`--runtime local`)."""
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


def credentials(sdk: ModuleType, connection: Connection) -> object:
    """What authenticates with a runtime, as the SDK takes it."""
    if connection.token is not None:
        strategy = "sandrl-local" if connection.is_local else "api_key"
        return sdk.AuthHeaders(headers={"Authorization": f"Bearer {connection.token}"}, strategy=strategy)
    return sdk.WandbAuth(entity=connection.wandb_entity)
