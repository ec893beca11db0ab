"""Machines for frameworks that have loops of their own: sandboxes of one job of this process, used from an event loop.

All machines of a process that ask for the same sandboxes are of one job, so its limits, its tags and its cleanup hold
for them. Commands in a machine run beside one another.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from sandrl.deadlines import in_background
from sandrl.errors import InfrastructureError, NoImageError, NoUserError, SandboxLostError, SandrlError
from sandrl.integrations.backend import local_backend
from sandrl.problems.tasks.task import Task
from sandrl.sandboxes import USUAL, CommandOutcome, SandboxRequest, Shape, Withdrawn
from sandrl.trials.entries import Entry, of_archive
from sandrl.trials.files import READ, WRITE, error_of
from sandrl.trials.machine import FILE_SECONDS, Machine, TooLargeError
from sandrl.trials.place import RuntimeLost
from sandrl.trials.preparation import make_ready

OUTPUT_BYTES = 16 << 20
"""How much of each output of a command is kept; a line with its size replaces the middle of a longer one."""

MOST_BYTES = 1 << 30
"""How much a file or a directory may have that is read."""

_Value = TypeVar("_Value")


class AsyncMachine:
    """A machine for the tasks of an event loop; make one with `start`."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._turn = asyncio.Lock()

    @classmethod
    async def start(
        cls,
        image: str = "",
        shape: Shape | None = None,
        *,
        tags: Sequence[str] = (),
        sandboxes: SandboxRequest | Mapping[str, Any] | None = None,
    ) -> Self:
        """Starts a machine.

        Args:
            image: Its image as a problem names one, `dockerfile:PATH` included; that of the sandboxes unless given.
            shape: Its other properties.
            tags: Its tags, in addition to those of the job.
            sandboxes: Which sandboxes of this process, or the fields of such a request.

        Raises:
            NoImageError: If the runtime cannot have the image.
            SandboxLostError: If the runtime cannot make such a machine, or it failed.
            UsageError: If there are no such sandboxes.
        """
        backend = local_backend(sandboxes)

        def begin() -> Machine:
            place = backend.place
            named = place.find_image(image) if image else ""
            machine = Machine(place, replace(shape or USUAL, image=named, as_root=bool(named)), tags)
            try:
                machine.start()
            except BaseException:
                machine.close()
                raise
            return machine

        starting = in_background(begin)
        try:
            return cls(await _told(asyncio.shield(asyncio.wrap_future(starting))))
        except asyncio.CancelledError:
            starting.add_done_callback(_closed)
            raise

    async def run(
        self,
        command: str | Sequence[str],
        *,
        user: str | None = None,
        timeout_seconds: float,
        variables: Mapping[str, str] | None = None,
        directory: str | None = None,
        stdin: bytes = b"",
        output_bytes: int = OUTPUT_BYTES,
    ) -> CommandOutcome:
        """Runs a command to its end; see `Machine.run`. Cancelling it kills the command.

        Raises:
            NoUserError: If it cannot be a command of this user.
            SandboxLostError: If the sandbox, or the runtime, failed.
        """
        begin = partial(
            self.machine.begin,
            command,
            user=user,
            timeout_seconds=timeout_seconds,
            variables=variables,
            directory=directory,
            stdin=stdin,
            output_bytes=output_bytes,
        )
        return await _told(self._begun(begin))

    async def put(self, directory: str, entries: Sequence[Entry], *, owner: str | None = None) -> None:
        """Writes files into a directory; see `Machine.put`.

        Raises:
            NoUserError: If the machine does not have this user.
            SandboxLostError: If they cannot be written, or the sandbox failed.
        """
        await self._in_turn(partial(self.machine.put, directory, entries, owner=owner))

    async def get(self, path: str, *, exclude: Sequence[str] = ()) -> list[Entry] | None:
        """Reads the files of a path, whose names begin with its name; returns None if there is nothing.

        Raises:
            TooLargeError: If they have more than `MOST_BYTES`.
            InputError: If the machine's archive is damaged.
            SandboxLostError: If they cannot be read, or the sandbox failed.
        """
        archive = await self._in_turn(partial(self.machine.get, path, exclude=exclude, most_bytes=MOST_BYTES))
        return None if archive is None else of_archive(archive)

    async def read(self, path: str, most_bytes: int = MOST_BYTES) -> bytes | None:
        """Reads a file; returns None if there is no file of this name.

        Raises:
            TooLargeError: If it has more than `most_bytes`.
            SandboxLostError: If the sandbox failed.
        """
        return await self._in_turn(partial(self.machine.read, path, most_bytes))

    async def read_as(self, user: str | None, path: str, most_bytes: int) -> bytes:
        """The content of a file that a user may read; relative paths begin at the working directory.

        Raises:
            OSError: As for a file of this machine; EFBIG if it has more than `most_bytes`.
            SandboxLostError: If the sandbox failed.
        """
        words = (self.machine.shell, "-c", READ, "sh", path)
        outcome = await self.run(words, user=user, timeout_seconds=FILE_SECONDS, output_bytes=most_bytes)
        if outcome.exit_code:
            raise error_of(outcome.exit_code, outcome.stderr, path)
        if outcome.timed_out or len(outcome.stdout) > most_bytes:
            number = errno.ETIMEDOUT if outcome.timed_out else errno.EFBIG
            raise OSError(number, os.strerror(number), path)
        return outcome.stdout

    async def write_as(self, user: str | None, path: str, content: bytes) -> None:
        """Makes a file as a user, and the directories above it.

        Raises:
            OSError: As for a file of this machine.
            SandboxLostError: If the sandbox failed.
        """
        words = (self.machine.shell, "-c", WRITE, "sh", path)
        outcome = await self.run(words, user=user, timeout_seconds=FILE_SECONDS, stdin=content)
        if outcome.exit_code != 0:
            raise error_of(outcome.exit_code, outcome.stderr, path)

    async def make_ready(self, task: Task) -> None:
        """Prepares it for an agent, as its task says.

        Raises:
            Unprepared: If that cannot be done.
            SandboxLostError: If the sandbox failed.
        """
        await self._in_turn(partial(make_ready, self.machine, task.environment, task))

    def close(self) -> None:
        """Begins to stop it; closing twice is fine."""
        self.machine.close()

    async def _begun(self, begin: Callable[[], Future[CommandOutcome]]) -> CommandOutcome:
        if self.machine.sandbox_id is None and not self.machine.is_lost:
            raise SandboxLostError("the sandbox has been stopped")
        return await asyncio.wrap_future(begin())

    async def _in_turn(self, work: Callable[[], _Value]) -> _Value:
        async def turn() -> _Value:
            async with self._turn:
                return await _told(asyncio.wrap_future(in_background(work)))

        # Work that has begun goes on: the next waits for its end even if nobody waits for its answer.
        return await asyncio.shield(asyncio.ensure_future(turn()))


def _closed(starting: Future[Machine]) -> None:
    # It came when nobody wanted it any more.
    if not starting.cancelled() and starting.exception() is None:
        starting.result().close()


async def _told(work: Awaitable[_Value]) -> _Value:
    # Whoever uses a framework knows one kind of failure of a sandbox.
    try:
        return await work
    except (TooLargeError, NoUserError, NoImageError):
        raise
    except (InfrastructureError, RuntimeLost, Withdrawn) as error:
        hint = error.hint if isinstance(error, SandrlError) else None
        raise SandboxLostError(str(error) or type(error).__name__, hint=hint) from error
