"""The tools of a check: a client of the provider whose sandboxes have a tag of this check alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TimedOut
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.conformance.check import Mismatch, expect_soon
from sandrl.sandboxes.providers.protocol import AttachedProgram, Client, Connection, Output, Result, Sandbox
from sandrl.settings import Settings

Value = TypeVar("Value")

PATIENCE_SECONDS = 60.0
"""How long a call may take; those of a provider are much quicker."""
LIFETIME_SECONDS = 300.0
"""Of the sandboxes of a check, for one that is killed."""
SLEEP = ("sleep", "1000")

_COUNT_SLEEPERS = """\
import os
def name(pid):
    try:
        return open(f'/proc/{pid}/cmdline', 'rb').read().split(b'\\0')[:2]
    except OSError:
        return []
print(sum(name(pid) == [b'sleep', b'1000'] for pid in os.listdir('/proc') if pid.isdigit()))
"""


def python(program: str) -> tuple[str, ...]:
    """The command that runs a program in the language of the sandbox."""
    return ("python", "-I", "-S", "-c", program)


def answer(future: Future[Value]) -> Value:
    """What a call has returned, once it is done.

    Raises:
        Mismatch: If that takes too long.
        Exception: The error of the call.
    """
    try:
        return future.result(PATIENCE_SECONDS)
    except TimedOut as error:
        if future.done():
            raise
        raise Mismatch(f"expected an answer, found none after {PATIENCE_SECONDS:g} s") from error


def listed(client: Client, tags: Sequence[str]) -> list[Sandbox]:
    """The sandboxes with these tags, by their own description: a provider that ignores tags lists those of others."""
    return [each for each in answer(client.list(tags)) if {*tags} <= {*each.info.tags}]


def stop_all(client: Client, tags: Sequence[str]) -> int:
    """Stops the sandboxes with these tags; returns how many there were."""
    stops = [each.stop() for each in listed(client, tags)]
    for each in stops:
        answer(each)
    return len(stops)


@dataclass
class Trial:
    """One check of a provider.

    Attributes:
        settings: Those that the connection was made with.
        runtime: The name with which another process finds the same runtime.
        tags: Of every sandbox of the client; the last is of this check alone.
    """

    connection: Connection
    settings: Settings
    runtime: str
    tags: tuple[str, ...]
    client: Client

    @property
    def tag(self) -> str:
        """What tells the sandboxes of this check."""
        return self.tags[-1]

    @cached_property
    def sandbox(self) -> Sandbox:
        """A sandbox, which is created on its first use."""
        return self.client.create(())

    def started(self) -> Sandbox:
        """The same, running."""
        answer(self.sandbox.start())
        return self.sandbox

    def run(self, *argv: str, stdin: bytes = b"", timeout_seconds: float = 30.0) -> Result:
        """Runs a program in it, to its end."""
        return answer(self.sandbox.run(Command(argv, stdin, timeout_seconds)))

    def found(self) -> Sandbox:
        """The same sandbox, running, as another part of a program finds it by its id."""
        return answer(self.client.get(self.id))

    @property
    def id(self) -> str:
        """Of its sandbox, which runs."""
        sandbox_id = self.started().id
        if sandbox_id is None:
            raise Mismatch("a sandbox that has started: expected an id, found None")
        return sandbox_id

    def ids(self, *tags: str, ended: bool = False) -> set[str | None]:
        """The sandboxes of this check that the runtime lists with these tags, too."""
        return {each.id for each in answer(self.client.list([self.tag, *tags], ended=ended))}

    def expect_sleepers(self, count: int) -> None:
        """Fails unless so many sleeping programs run in its sandbox soon."""
        expect_soon("running sleeping programs", lambda: self.sleepers(self.sandbox), count)

    def sleepers(self, sandbox: Sandbox) -> int:
        """How many sleeping programs a sandbox shows."""
        result = answer(sandbox.run(Command(python(_COUNT_SLEEPERS))))
        if result.exit_code != 0:
            raise Mismatch(f"a program that reads /proc: expected exit code 0, found {result.exit_code}")
        return int(result.stdout)

    def open(self, *, lifetime_seconds: float = LIFETIME_SECONDS) -> Client:
        """Another client whose sandboxes have the same tags."""
        return self.connection.open(tags=self.tags, max_lifetime_seconds=lifetime_seconds)

    def attach(self, *argv: str, timeout_seconds: float = 30.0) -> Attachment:
        """Starts a program with its streams attached, in its sandbox."""
        return Attachment(self.found(), argv, timeout_seconds)


class Attachment:
    """A program of a sandbox, and what came of its streams."""

    def __init__(self, sandbox: Sandbox, argv: Sequence[str], timeout_seconds: float) -> None:
        self.out, self.err = bytearray(), bytearray()
        self.program: AttachedProgram = sandbox.attach(
            argv,
            stdin=True,
            stdout=Output(self.out.extend),
            stderr=Output(self.err.extend),
            timeout_seconds=timeout_seconds,
        )

    def end(self) -> int | None:
        """Its exit code, once it has ended."""
        return end_of(self.program)


def end_of(program: AttachedProgram) -> int | None:
    """The exit code of an attached program, once it has ended."""
    answer(program.ended)
    return program.finish()


def ended_with(program: AttachedProgram) -> Callable[[], int | None]:
    """The same as a call that is still to come, for an end that is an error."""
    return lambda: end_of(program)
