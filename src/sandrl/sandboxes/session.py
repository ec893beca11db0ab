"""The commands and sandboxes of a job that are under way at one runtime.

Every end is put into one queue, which the thread that waits for the job reads. So neither the number of commands nor
the user's request to stop costs a poll.

In a stall, this process or the runtime does nothing at all, while every timeout continues to run; a failure in it says
nothing about the code that ran. It shows as a long pause between two signs of life. This process gives one whenever it
waits for its sandboxes, at least once a second; the runtime with each answer to a call that is made once a second.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from sandrl.errors import InfrastructureError, NoRoomError, SandrlError, UsageError
from sandrl.sandboxes.commands import Command, CommandOutcome
from sandrl.sandboxes.interrupt import Interrupt, Level
from sandrl.sandboxes.providers.protocol import Connection, Result, Sandbox
from sandrl.sandboxes.shape import USUAL, Shape

BEAT_SECONDS = 1.0
"""The time between two signs of life."""
STALL_SECONDS = 3.0
"""A longer pause is a stall; shorter than any pause that makes a command exceed its timeout."""

_REMEMBERED_PAUSES = 1000


class Heartbeats:
    """The last sign of life of a process or runtime, and its pauses. All times are seconds of one clock."""

    def __init__(self) -> None:
        self._pauses: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED_PAUSES)
        self._last: float | None = None

    def note(self, now: float) -> None:
        if self._last is not None and now - self._last > STALL_SECONDS:
            self._pauses.append((self._last, now))
        self._last = now if self._last is None else max(self._last, now)

    def forget(self) -> None:
        """Expects no sign of life until the next one arrives."""
        self._last = None

    def longest_pause(self, since: float, now: float) -> float:
        """The longest time without a sign of life from `since` to `now`; 0 if no sign was expected."""
        pauses = [*self._pauses] if self._last is None else [*self._pauses, (self._last, now)]
        return max((end - max(begin, since) for begin, end in pauses), default=0.0)


class InteractiveProgram(Protocol):
    """A program that communicates with the job while it runs, in its own sandbox."""

    cells: int

    def begin(self, sandbox: Sandbox) -> Future[Result]:
        """Starts it, which creates the sandbox; done when it has ended."""

    def cancel(self) -> None:
        """Kills it."""


@dataclass(slots=True, eq=False)
class Launch:
    """A command under way: its own sandbox and the process in it, or neither while it waits to be sent.

    Attributes:
        key: Names the launch in the ledger.
        tags: Tags of its sandbox beyond those of the session, encoded.
        address: The runtime it was sent to; empty before that.
        process: Done when the command has ended.
        start: Done when a sandbox that was requested before its command exists.
        worker: The worker that is started instead of a command.
        in_cell: Whether the command is for a cell; the sandbox is that of its worker then.
        shape: What its sandbox is, see `Client.create`.
    """

    key: str
    command: Command
    tags: tuple[str, ...] = ()
    may_be_warm: bool = False
    address: str = ""
    sandbox: Sandbox | None = field(default=None, repr=False)
    process: Future[Result] | None = field(default=None, repr=False)
    start: Future[None] | None = field(default=None, repr=False)
    worker: InteractiveProgram | None = field(default=None, repr=False)
    in_cell: bool = False
    shape: Shape = USUAL
    launched_at: float = 0.0
    launched_time: datetime | None = None

    @property
    def startup_seconds(self) -> float | None:
        """The time from the request of the sandbox until it ran, by two clocks; None if it never ran.

        The start is by the clock of the service. The sandbox of a cell existed before, so it has no such time.
        """
        if self.in_cell:
            return None
        started = None if self.sandbox is None else self.sandbox.started_at
        if started is None or self.launched_time is None:
            return None
        if started.tzinfo is None:
            started = started.replace(tzinfo=UTC)
        # Clocks of two machines differ; no sandbox runs before it is asked for.
        return max((started - self.launched_time).total_seconds(), 0.0)

    @property
    def sandbox_id(self) -> str | None:
        return None if self.sandbox is None else self.sandbox.id

    @property
    def has_failed_to_start(self) -> bool:
        """Whether the sandbox was requested before its command, and failed to start."""
        return self.start is not None and self.start.done() and _error_of(self.start) is not None

    def may_have_caused(self, error: InfrastructureError) -> bool:
        """Whether the command may have caused the failure that the launch ended with.

        It did not cause it if there was no sandbox, or if the runtime failed together with its sandboxes.
        """
        return self.sandbox_id is not None and not error.lost_runtime

    def cancel(self) -> None:
        """Cancels the command if it was sent, and the start of a sandbox that was requested before its command."""
        if self.worker is not None:
            self.worker.cancel()
        for future in (self.process, self.start):
            if future is not None:
                future.cancel()


@dataclass(slots=True, eq=False)
class Stop:
    """The stop of a sandbox.

    Attributes:
        ended_time: When the sandbox ended, UTC; None before that, and if the stop failed.
    """

    key: str
    address: str
    sandbox_id: str
    operation: Future[None] = field(repr=False)
    is_watched: bool = False
    ended_time: datetime | None = None

    @property
    def has_ended(self) -> bool:
        return self.operation.done()

    @property
    def error(self) -> SandrlError | None:
        return _error_of(self.operation)


class Session:
    """One job's use of a runtime.

    Attributes:
        address: The address of the runtime that new launches are sent to.
    """

    def __init__(self, connection: Connection, *, tags: Sequence[str], max_lifetime_seconds: float) -> None:
        self._tags = tuple(tags)
        self._max_lifetime_seconds = max_lifetime_seconds
        self._ends: SimpleQueue[Launch | None] = SimpleQueue()
        self._sent = self._unreached = 0
        self._gone: set[str] = set()
        self._own_signs = Heartbeats()
        self._runtime_signs = Heartbeats()
        self._question: Future[None] | None = None
        self._asked_at = 0.0
        self.direct_to(connection)

    def direct_to(self, connection: Connection) -> None:
        """Sends later launches to a runtime; launches in flight stay where they are."""
        self.address = connection.address
        self._gone.discard(self.address)
        self._client = connection.open(tags=self._tags, max_lifetime_seconds=self._max_lifetime_seconds)

    def lose_runtime(self) -> None:
        """Notes that the runtime has ended with all of its sandboxes; it is not called again."""
        self._gone.add(self.address)
        self._client.abandon()

    def is_gone(self, address: str) -> bool:
        """Whether a runtime is known to have ended with all of its sandboxes."""
        return address in self._gone

    def send(self, launch: Launch, within: Launch | None = None) -> None:
        """Starts a fresh sandbox and the command in it, without waiting for either.

        Args:
            launch: What to send. A refused launch keeps its sandbox, and with it the name of the request, so that a
                repeated request does not create a second sandbox.
            within: An ended launch in whose sandbox to run the command, instead of a fresh one.
        """
        launch.launched_at, launch.launched_time = time.monotonic(), datetime.now(UTC)
        address = self.address if within is None else within.address
        if self.is_gone(address):
            launch.address = address
            self._fail(launch, _lost())
            return
        if within is not None:
            launch.address, launch.sandbox = within.address, within.sandbox
        elif launch.sandbox is None or launch.address != self.address:
            cells = 0 if launch.worker is None else launch.worker.cells
            launch.address = self.address
            try:
                launch.sandbox = self._client.create(launch.tags, cells=cells, shape=launch.shape)
            except UsageError as error:
                self._fail(launch, error)
                return
        assert launch.sandbox is not None, "ended launches have had one"
        if launch.worker is not None:
            launch.process = launch.worker.begin(launch.sandbox)
        else:
            launch.process = launch.sandbox.run(launch.command)
        self._sent += 1
        launch.process.add_done_callback(lambda ended: self._note_end(launch, ended))

    def _fail(self, launch: Launch, error: SandrlError) -> None:
        launch.process = Future()
        launch.process.set_exception(error)
        self._ends.put(launch)

    def prepare(self, launch: Launch) -> None:
        """Begins to create a launch's sandbox ahead of its command."""
        launch.address, launch.sandbox = self.address, self._client.create(launch.tags)
        launch.launched_at = time.monotonic()
        self._sent += 1
        launch.start = launch.sandbox.start()
        launch.start.add_done_callback(lambda ended: self._note_reach(launch, ended))

    @property
    def may_have_reached(self) -> bool:
        """Whether a request may have reached a runtime; if not, no sandbox was created."""
        return self._unreached < self._sent and not self.is_gone(self.address)

    def _note_reach(self, launch: Launch, ended: Future[Any]) -> None:
        error = None if ended.cancelled() else ended.exception()
        if isinstance(error, InfrastructureError) and error.never_reached and launch.sandbox_id is None:
            self._unreached += 1

    def _note_end(self, launch: Launch, ended: Future[Any]) -> None:
        self._note_reach(launch, ended)
        self._ends.put(launch)

    def ring(self, _: object = None) -> None:
        """Ends a wait for a reason other than the end of a launch."""
        self._ends.put(None)

    def wait_any(self, interrupt: Interrupt, seen: Level, timeout_seconds: float) -> list[Launch]:
        """Waits until at least one launch has ended, the user asks to stop, or the time is over.

        Returns:
            The launches that have ended since the last call; empty if something else ended the wait, such as a watched
            stop.
        """
        self._own_signs.note(time.monotonic())
        ended = self._ended_within(interrupt, seen, timeout_seconds)
        self._own_signs.note(time.monotonic())
        return ended

    def _ended_within(self, interrupt: Interrupt, seen: Level, timeout_seconds: float) -> list[Launch]:
        if self._question is not None and self._question.done() and time.monotonic() - self._asked_at >= BEAT_SECONDS:
            self._ask()
        # In this order: a wish from here on rings, one from before shows here.
        interrupt.waker().add_done_callback(self.ring)
        ended: list[Launch | None] = []
        if interrupt.level is seen and not interrupt.is_awake:
            try:
                ended.append(self._ends.get(timeout=timeout_seconds))
            except Empty:
                return []
        try:
            while True:
                ended.append(self._ends.get_nowait())
        except Empty:
            return [launch for launch in ended if launch is not None]

    def refusal(self, launch: Launch) -> NoRoomError | None:
        """The refusal of a launch that got no sandbox for lack of room and so never ran; None for any other launch."""
        if launch.process is None or launch.sandbox_id is not None:
            return None
        error = _error_of(launch.process)
        return error if isinstance(error, NoRoomError) else None

    def collect(self, launch: Launch) -> CommandOutcome:
        """The outcome of an ended launch.

        Raises:
            InfrastructureError: If the sandbox failed, not the command.
            AuthenticationError: If the runtime refuses the credentials.
            UsageError: If the runtime refuses the request itself (an unknown image, impossible resources).
        """
        assert launch.process is not None, "what has ended was sent"
        error = _error_of(launch.process)
        if error is not None:
            if isinstance(error, InfrastructureError) and self.is_gone(launch.address):
                raise _lost() from error
            raise error
        result = launch.process.result()
        seconds = time.monotonic() - launch.launched_at
        return CommandOutcome(launch.sandbox_id or "", result.exit_code, result.stdout, result.stderr, seconds=seconds)

    def stop(self, launch: Launch) -> Stop:
        """Begins to stop a launch's sandbox; a command still running in it is killed."""
        if self.is_gone(launch.address):
            gone: Future[None] = Future()
            gone.set_result(None)
            return Stop(launch.key, launch.address, launch.sandbox_id or "", gone)
        assert launch.sandbox is not None, "what was not sent has none"
        return Stop(launch.key, launch.address, launch.sandbox_id or "", launch.sandbox.stop())

    def stop_tagged(self, tags: Sequence[str], timeout_seconds: float) -> int:
        ends_at = time.monotonic() + timeout_seconds
        try:
            found = self._client.list(tags).result(timeout_seconds)
            stops = [sandbox.stop() for sandbox in found]
            wait_for(stops, at_least=len(stops), ends_at=ends_at)
            for stop in stops:
                stop.result(0)
        except TimeoutError as error:
            raise InfrastructureError("the sandbox service did not answer in time") from error
        return len(found)

    def watch_runtime(self, wanted: bool) -> None:
        """Begins or ends requests for a sign of life from the runtime, once a second while the job waits."""
        if wanted and self._question is None:
            self._ask()
        elif not wanted:
            self._question = None
            self._runtime_signs.forget()

    def has_stalled(self, since: float, *, own: bool = False) -> bool:
        """Whether this process, or the runtime as far as it was watched, did nothing for a while since a moment.

        Args:
            own: Whether only this process is meant.
        """
        now = time.monotonic()
        signs = (self._own_signs,) if own else (self._own_signs, self._runtime_signs)
        return any(each.longest_pause(since, now) > STALL_SECONDS for each in signs)

    def _ask(self) -> None:
        self._asked_at = time.monotonic()
        self._runtime_signs.note(self._asked_at)
        self._question = self._client.ping()
        self._question.add_done_callback(lambda _: self._runtime_signs.note(time.monotonic()))

    def close(self, timeout_seconds: float) -> None:
        self._client.close(timeout_seconds)


def wait_for(operations: Sequence[Future[Any]], *, at_least: int, ends_at: float | None) -> None:
    """Waits until at least some operations have ended, successfully or not.

    Args:
        ends_at: When the wait ends, by the monotonic clock; None to wait indefinitely.
    """
    rung: SimpleQueue[Future[Any]] = SimpleQueue()
    for operation in operations:
        operation.add_done_callback(rung.put)
    for _ in range(at_least):
        try:
            rung.get(timeout=None if ends_at is None else max(ends_at - time.monotonic(), 0.0))
        except Empty:
            return


def _lost() -> InfrastructureError:
    error = InfrastructureError("the runtime ended, and its sandboxes with it")
    error.lost_runtime = True
    return error


def _error_of(ended: Future[Any]) -> SandrlError | None:
    try:
        error = ended.exception()
    except CancelledError:
        return InfrastructureError("the execution was cancelled")
    if error is None or isinstance(error, SandrlError):
        return error
    raise error  # a provider broke the protocol
