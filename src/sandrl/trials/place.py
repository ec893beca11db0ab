"""Where threads get their sandboxes from: a job, which belongs to another thread.

A job is used by one thread alone, that of the batch that is being scored. A `JobPlace` passes on to this thread what
others ask for, so commands of trials and of episodes share the job's limit of sandboxes, its budget and its cleanup.
Who asks is a thread that waits, and gets an answer at once if there is nothing to wait for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from sandrl.errors import InfrastructureError, SandrlError, UsageError
from sandrl.events import Emit, ExecutionFinished, ignore
from sandrl.sandboxes import USUAL, Command, CommandOutcome, Connection, Job, Launch, Shape, Withdrawn

_Result = TypeVar("_Result")


class RuntimeLost(Exception):
    """The runtime took a sandbox along, or could not be reached for one; `is_replaced` if there is another one now."""

    def __init__(self, reason: str, *, is_replaced: bool) -> None:
        super().__init__(reason)
        self.is_replaced = is_replaced


class Place(Protocol):
    """Where trials and episodes get their sandboxes; any thread may use it.

    Attributes:
        emit: Receives an event of every command.
    """

    emit: Emit

    @property
    def connection(self) -> Connection:
        """The runtime of the next sandbox."""
        ...

    def find_image(self, image: str) -> str:
        """An image that a problem names, as a `Shape` names it, once the runtime has it.

        Raises:
            NoImageError: If the runtime cannot have it.
        """
        ...

    def launch(
        self, command: Command, *, within: Launch | None, tags: Sequence[str], shape: Shape | None = None
    ) -> tuple[Launch, CommandOutcome]:
        """Runs a command in a fresh sandbox, or in one that is kept; returns the launch that keeps it now.

        Args:
            tags: Those of a fresh sandbox.
            shape: What a fresh sandbox is; None for the usual one of the job.

        Raises:
            InfrastructureError: If the sandbox failed, not the command, or there can be none of this shape; it is gone.
            RuntimeLost: If the runtime failed, and the sandbox with it.
            Withdrawn: If the user asked to stop before the command was sent.
        """
        ...

    def release(self, launch: Launch) -> None:
        """Begins to stop the sandbox that a launch keeps."""
        ...


def collected(job: Job, launch: Launch) -> CommandOutcome:
    """The outcome of a command that has ended, in a sandbox that is kept; that of a failed one begins to stop.

    Raises:
        InfrastructureError, RuntimeLost, Withdrawn: See `Place.launch`.
    """
    try:
        return job.collect(launch, keep=True)
    except InfrastructureError as error:
        raise _failure_of(job, launch, error) from error
    except UsageError as error:
        if launch.shape.is_usual:
            raise
        # What nobody else asks for is no error of theirs.
        raise InfrastructureError(error.message, hint=error.hint) from error


def finished(
    task_id: str, outcome: CommandOutcome, seconds: float, *, startup_seconds: float | None = None
) -> ExecutionFinished:
    """The event of a command that has ended after these seconds; the first in a sandbox tells how it started."""
    word = "error" if outcome.timed_out else "success" if outcome.exit_code == 0 else "failure"
    return ExecutionFinished(
        task_id,
        outcome.sandbox_id,
        word,
        returncode=outcome.exit_code,
        startup_seconds=startup_seconds,
        exec_seconds=seconds,
        stdout_bytes=len(outcome.stdout),
        stderr_bytes=len(outcome.stderr),
    )


def _failure_of(job: Job, launch: Launch, error: InfrastructureError) -> InfrastructureError | RuntimeLost:
    failure: InfrastructureError | RuntimeLost = error
    if not launch.may_have_caused(error):
        failure = RuntimeLost(error.message, is_replaced=job.reconnect(launch))
    job.release(launch)
    return failure


class OfJob:
    """What the places have in common whose sandboxes are those of a job."""

    def __init__(self, job: Job, emit: Emit) -> None:
        self._job = job
        self.emit = emit

    @property
    def connection(self) -> Connection:
        return self._job.connection

    def find_image(self, image: str) -> str:
        return self._job.with_image(image).result().image


class JobPlace(OfJob):
    """Passes on to the thread of a job what other threads ask for.

    That thread calls `take_turn` whenever it was woken, `land` for each launch that has ended, and `end` at its end.

    Args:
        wake: Wakes it.
    """

    def __init__(self, job: Job, wake: Callable[[], None], *, emit: Emit = ignore) -> None:
        super().__init__(job, emit)
        self._wake = wake
        self._requests: SimpleQueue[tuple[Callable[[], None], Future[Any] | None]] = SimpleQueue()
        self._running: dict[Launch, Future[tuple[Launch, CommandOutcome]]] = {}
        self._lock = threading.Lock()
        self._end: BaseException | None = None

    def after_fork(self, error: BaseException) -> None:
        """Answers with an error in the child of a fork, where the thread of the job is not."""
        self._lock = threading.Lock()
        self._end = error

    def launch(
        self, command: Command, *, within: Launch | None, tags: Sequence[str], shape: Shape | None = None
    ) -> tuple[Launch, CommandOutcome]:
        done: Future[tuple[Launch, CommandOutcome]] = Future()

        def begin() -> None:
            launch = self._job.launch(command, tags=tags, within=within, shape=shape or USUAL)
            self._running[launch] = done

        return self.wait_for(done, begin)

    def release(self, launch: Launch) -> None:
        self.ask(lambda: self._job.release(launch))

    def wait_for(self, done: Future[_Result], begin: Callable[[], None]) -> _Result:
        """What a future has in the end, after something was begun on the job's thread."""
        self.ask(begin, done)
        return done.result()

    def ask(self, begin: Callable[[], None], done: Future[Any] | None = None) -> None:
        """Has something begun on the job's thread; `done` hears of an error."""
        with self._lock:
            if self._end is None:
                self._requests.put((begin, done))
            elif done is not None:
                done.set_exception(self._end)
        self._wake()

    def take_turn(self) -> None:
        """Begins what was asked for; on the job's thread."""
        for begin, done in self._asked():
            try:
                begin()
            except SandrlError as error:
                # The end of all; who asked for this is not yet among those who wait.
                if done is not None:
                    done.set_exception(error)
                raise

    def land(self, launch: Launch) -> bool:
        """Hands over the outcome of a command, if it was asked for here; on the job's thread."""
        done = self._running.pop(launch, None)
        if done is None:
            return False
        try:
            done.set_result((launch, collected(self._job, launch)))
        except (InfrastructureError, RuntimeLost, Withdrawn) as error:
            done.set_exception(error)
        except SandrlError as error:
            done.set_exception(error)
            raise
        return True

    def end(self, error: BaseException, *others: Future[Any]) -> None:
        """Answers all who wait, and who ask from here on, with an error; `others` wait as well."""
        with self._lock:
            self._end = error
        for begin, done in self._asked():
            if done is None:
                # A sandbox that is released, nothing else.
                begin()
            else:
                done.set_exception(error)
        for waiting in (*self._running.values(), *others):
            waiting.set_exception(error)
        self._running.clear()

    def _asked(self) -> Iterator[tuple[Callable[[], None], Future[Any] | None]]:
        with suppress(Empty):
            while True:
                yield self._requests.get_nowait()
