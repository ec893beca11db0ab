"""The protocol of a provider, the module that connects sandrl to one kind of runtime.

A provider has three parts, each of which exists only as long as it is needed. A `Provider` is found by the name of its
runtime and has no state. It makes a `Connection`, a plain record of one runtime as it is now. A connection opens a
`Client`, which makes and finds sandboxes.

Nothing here waits. Each operation that takes time returns a `concurrent.futures.Future`, which is done on a thread of
the provider and has one of sandrl's own errors if it failed:

- `InfrastructureError`: sandboxes failed in a way that is not the code's fault. `lost_runtime` is set if the runtime
  itself failed, `never_reached` if there was no connection at all. Of these, `NoRoomError`: the runtime is full.
- `AuthenticationError`, `UsageError`: the runtime refuses the credentials, or the request itself.
- `UnknownSandboxError`, `NotRunningError`: only from operations on a sandbox that was listed or found.

A command that failed, or exceeded its timeout, is not an error but has a `Result`. `tests/conformance` checks all of
this with any provider.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Protocol

from pydantic import JsonValue

from sandrl.events import Emit
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.owner import OwnerFacts
from sandrl.settings import RuntimeKind, Settings

PENDING_STATUSES = frozenset({"pending", "creating", "preparing"})
ENDED_STATUSES = frozenset({"completed", "failed", "terminated"})
STATUSES = ("pending", "creating", "preparing", "running", "paused", "terminating", "completed", "failed", "terminated")


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox as its runtime describes it.

    Attributes:
        id: Its id.
        status: One of `STATUSES`, or `unspecified`.
        reason: What the runtime says about the status.
        tags: As they are stored.
        created_at: UTC, like all times here; None where the runtime does not tell.
        started_at: When it ran.
        ended_at: When it ended.
        max_lifetime_seconds: After this the runtime ends it; 0 if it does not tell.
        image: Its container image.
        resources: What it may use, by name.
        exit_code: Of its main program, once that has ended.
        runner: Where it is.
        owner: What the machine it is on has found out about its owner; None where that is to be found out here.
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
    owner: OwnerFacts | None = None

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


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended.

    Attributes:
        exit_code: Its exit status, 128 plus the number of the signal that ended it; None if it was killed for running
            out of time.
        stdout: All it printed.
        stderr: All it printed as errors.
    """

    exit_code: int | None
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Output:
    """Where an output of an attached program goes.

    Attributes:
        write: Takes it as it comes, on a thread of the provider. A `BrokenPipeError` of it kills the program.
        is_exact: Whether every byte matters more than its coming at once; to a reader at a terminal it does not.
    """

    write: Callable[[bytes], None]
    is_exact: bool = True


class Attached(Protocol):
    """A program whose streams are passed on while it runs.

    Attributes:
        ended: Done when the program has ended, however that was.
    """

    ended: Future[None]

    def write(self, block: bytes) -> None:
        """Gives its standard input some bytes, and waits until they are taken.

        Raises:
            ServiceError: If it takes none any more.
        """

    def close_input(self) -> None:
        """Ends its standard input; that of a program that has ended is closed already.

        Raises:
            ServiceError: If the service does not answer.
        """

    def cancel(self) -> None:
        """Kills it."""

    def finish(self) -> int | None:
        """Passes on what is left of its output, once it has ended.

        Returns:
            Its exit code; None if it was killed for running out of time.

        Raises:
            BrokenPipeError: If nobody reads its output any more.
            NotRunningError: If the sandbox has ended before it.
            InfrastructureError: If the sandbox failed, or the program was cancelled.
        """


class Sandbox(Protocol):
    """One sandbox, which may still have to be created; `run` and `start` do so."""

    @property
    def id(self) -> str | None:
        """Its id; None as long as it does not exist, or nobody knows whether it does."""

    @property
    def started_at(self) -> datetime | None:
        """When it ran; None if it did not, or its runtime has not told."""

    @property
    def info(self) -> SandboxInfo:
        """What the runtime said of it when it was listed or found."""

    def start(self) -> Future[None]:
        """Begins to create it."""

    def run(self, command: Command) -> Future[Result]:
        """Runs a command in it to its end; cancelling the future kills the command and all it started.

        A sandbox that could not be created is created by the next call, and never twice.
        """

    def attach(
        self, argv: Sequence[str], *, stdin: bool, stdout: Output, stderr: Output, timeout_seconds: float
    ) -> Attached:
        """Starts a program in it whose streams are passed on.

        Args:
            argv: Program and arguments.
            stdin: Whether something will be written to its standard input; otherwise that is at its end.
            stdout: Where its output goes.
            stderr: Where its errors go.
            timeout_seconds: After this it is killed.
        """

    def read_file(self, path: str) -> Future[bytes]:
        """The content of a file in it; an `OSError` says why there is none, as for a file of this machine."""

    def write_file(self, path: str, content: bytes) -> Future[None]:
        """Creates or replaces a file in it; an `OSError` says why not, as for a file of this machine."""

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        """The output of its main program, in pieces as they come.

        Args:
            follow: Wait for more until it ends.
            tail_lines: Begin so many lines before the end.

        Raises:
            NotRunningError: If the sandbox has ended and its output is gone.
            ServiceError: If the runtime does not answer or refuses.
        """

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        """Ends it with everything in it; done when it is gone.

        One that is being created and has no id yet may come to be all the same; `Client.list` finds it then.

        Args:
            missing_ok: Whether finding nothing to stop is success; otherwise it is an `UnknownSandboxError`.
        """


class Client(Protocol):
    """Makes and finds the sandboxes of one runtime."""

    def create(self, tags: Sequence[str], cells: int = 0) -> Sandbox:
        """A sandbox to be created on its first use.

        Args:
            tags: Its tags besides those of the client, encoded.
            cells: How many cells a worker is to hold at once, from 1 to 256; it may turn out that none can be made in
                it. 0 for a sandbox that is no worker.
        """

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        """The sandboxes that have all these tags, those included that are being created.

        Args:
            tags: Encoded tags.
            ended: Also those that have ended and are still remembered.
        """

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        """One sandbox, living or still remembered."""

    def ping(self) -> Future[None]:
        """Done when the runtime has answered a question that costs it next to nothing."""

    def abandon(self) -> None:
        """Forgets all sandboxes that it has made, because the runtime is gone; nothing more is asked of the runtime."""

    def close(self, timeout_seconds: float) -> None:
        """Ends the client; sandboxes that it has made may go with it.

        Raises:
            SandrlError: If that failed, or took longer.
        """


@dataclass(frozen=True, slots=True)
class Unreached:
    """A machine of a runtime that could not be asked for its sandboxes.

    Attributes:
        node: Its name.
        reason: Why not, in a few words.
    """

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A directory of this machine that sandboxes see, read-only.

    Attributes:
        here: Its path on this machine.
        there: Its path in sandboxes.
    """

    here: Path
    there: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(ABC):
    """A runtime, ready to be asked for sandboxes.

    Attributes:
        kind: Its name.
        reason: Why this one, in a few words.
        address: Where it is reached; another one means another runtime, with other sandboxes.
        image: The container image of sandboxes.
        is_local: Whether its sandboxes run on this machine.
        suggested_concurrency: How many sandboxes at once suit it.
        isolation: How it isolates them, where they run on this machine.
        has_site_packages: Whether sandboxes have installed packages that code may import.
        overlay: Names the packages that were asked for; empty without any.
        memory_bytes: Memory of each sandbox; None where the runtime decides and does not tell.
        has_own_memory: Whether it was asked for.
        state_dir: Where jobs that use it are registered; None for those of a program that keeps no state.
        prebuilt: A directory of this machine that all sandboxes see, read-only; None without one.
        way_out: What a user can do if it does not answer.
        renew: Finds the runtime again after it ended, or starts it; None where that is not ours to do.
        has_ended: Whether the runtime, with all of its sandboxes, is gone for good, as this machine shows without a
            question to the runtime; None where only a question tells.
    """

    kind: RuntimeKind
    reason: str
    address: str
    image: str
    is_local: bool
    suggested_concurrency: int = 8
    isolation: str = ""
    has_site_packages: bool = False
    overlay: str = ""
    memory_bytes: int | None = None
    has_own_memory: bool = False
    state_dir: Path | None = None
    prebuilt: Shown | None = None
    way_out: str = field(default="", compare=False)
    renew: Callable[[], Connection] | None = field(default=None, repr=False, compare=False)
    has_ended: Callable[[], bool] | None = field(default=None, repr=False, compare=False)

    def named(self) -> tuple[str, str | None]:
        """The name of the runtime, and the image of its sandboxes, as another process asks for the same."""
        return self.kind.value, self.image

    def concurrency(self, asked: int | None, *, least: int = 1) -> int | None:
        """How many completions at once to judge.

        Args:
            asked: What the user said; None without a word.
            least: How many at least, without a word of the user's.

        Returns:
            The number; None where each machine of the runtime decides for itself.
        """
        return asked or max(self.suggested_concurrency, least)

    def at_once(self, concurrency: int | None) -> int:
        """How many completions that comes to on all machines; see `concurrency`."""
        return concurrency or self.suggested_concurrency

    def facts(self) -> dict[str, JsonValue]:
        """What a run keeps of it, besides what was asked for."""
        return {"runtime_kind": self.kind.value, "runtime_reason": self.reason, "runtime_image": self.image}

    def unreached(self) -> tuple[Unreached, ...]:
        """The machines of the runtime that its clients could not ask so far; what they listed is without these."""
        return ()

    @abstractmethod
    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> Client:
        """Opens a client.

        Args:
            tags: The tags of every sandbox it makes, encoded.
            max_lifetime_seconds: After this the runtime ends a sandbox whatever happens here; its own bound unless
                given.

        Raises:
            ForkedProcessError: If this process was forked from one that had used the runtime, and cannot.
            ServiceError: If the runtime cannot be used.
        """


class Need(StrEnum):
    """What a runtime needs, which `sandrl doctor` examines; what others rest on comes first."""

    FILES = "files"
    """The state directory is the user's own, and programs may open enough files."""
    PORT = "port"
    """Processes of this machine reach one another on 127.0.0.1."""
    ISOLATION = "isolation"
    """This machine isolates code."""
    SERVICE = "service"
    """The sandbox service."""
    CLUSTER = "cluster"
    """Nodes of a cluster that can score, each with what its local runtime needs."""


class Provider(Protocol):
    """Makes one runtime's sandboxes available.

    Attributes:
        summary: Where its sandboxes come from, in a few words.
        needs: What it needs of this machine and of the outside.
    """

    summary: ClassVar[str]
    needs: ClassVar[frozenset[Need]]

    def connect(
        self, settings: Settings, *, reason: str, image: str | None, packages: Sequence[str], emit: Emit
    ) -> Connection:
        """Makes sure that the runtime is there.

        Args:
            settings: What the environment says.
            reason: Why it was chosen.
            image: The image of sandboxes; the runtime's own default unless given.
            packages: Installed packages that code in sandboxes may import.
            emit: Told what is being done.

        Raises:
            AuthenticationError: If it needs credentials and there are none.
            RuntimeUnavailableError: If it cannot start, or isolate code, on this machine.
            UsageError: If the image or the packages cannot be had.
        """

    def find(self, settings: Settings, *, reason: str) -> Connection | None:
        """The runtime as it is, to look after sandboxes that exist; never starts one.

        Args:
            settings: What the environment says.
            reason: Why it was chosen.

        Returns:
            Where its sandboxes are; None if nothing can be listed, for the reason that `absence` gives.

        Raises:
            AuthenticationError: If it needs credentials and there are none.
            MissingExtraError: If a package that it takes is not installed.
            ServiceError: If it has to be asked for its machines, and does not answer.
            UsageError: If its address is none.
        """

    def absence(self, settings: Settings) -> str:
        """Why `find` has found nothing, in a sentence for the user."""
