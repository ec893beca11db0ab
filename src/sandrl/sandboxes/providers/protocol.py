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

A command that failed, or exceeded its timeout, is not an error but has a `Result`. `sandrl runtime check` checks all of
this with any provider (`sandrl.sandboxes.conformance`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue

from sandrl.errors import UsageError
from sandrl.events import Emit, ignore
from sandrl.runtime.network import Network
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.owner import OwnerFacts
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.settings import Settings

PENDING_STATUSES = frozenset({"pending", "creating", "preparing"})
ENDED_STATUSES = frozenset({"completed", "failed", "terminated"})
STATUSES = ("pending", "creating", "preparing", "running", "paused", "terminating", "completed", "failed", "terminated")


@dataclass(frozen=True, slots=True)
class SandboxInfo:
    """A sandbox as its runtime describes it.

    Attributes:
        status: One of `STATUSES`, or `unspecified`.
        created_at: UTC, like all times here; None if the runtime does not report it.
        max_lifetime_seconds: After this the runtime ends it; 0 if the runtime does not report it.
        owner: Its owner as the machine that it is on has determined it; None if this machine determines it.
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
        """Whether it has ended, so that nothing is left to stop."""
        return self.status in ENDED_STATUSES

    @property
    def expires_at(self) -> datetime | None:
        """When its lifetime ends, counted from its start, or from its creation if it has not started."""
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
        exit_code: Its exit status, 128 plus the number of the signal that ended it; None if it was killed because it
            exceeded its timeout.
    """

    exit_code: int | None
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Output:
    """The destination of one output of an attached program.

    Attributes:
        write: Receives the output as it comes, on a thread of the provider. If it raises `BrokenPipeError`, the program
            is killed.
        is_exact: Whether exact bytes are more important than immediate output; False for a reader at a terminal.
    """

    write: Callable[[bytes], None]
    is_exact: bool = True


class AttachedProgram(Protocol):
    """A program whose streams are passed on while it runs.

    Attributes:
        ended: Done when the program has ended, however that was.
    """

    ended: Future[None]

    def write(self, block: bytes) -> None:
        """Writes bytes to its standard input, and waits until they are accepted.

        Raises:
            ServiceError: If it accepts no more input.
        """

    def close_input(self) -> None:
        """Closes its standard input; has no effect if the program has ended.

        Raises:
            ServiceError: If the service does not answer.
        """

    def cancel(self) -> None:
        """Kills it."""

    def finish(self) -> int | None:
        """Passes on the rest of its output, once it has ended.

        Returns:
            Its exit code; None if it was killed because it exceeded its timeout.

        Raises:
            BrokenPipeError: If the reader of its output has closed it.
            NotRunningError: If the sandbox has ended before it.
            InfrastructureError: If the sandbox failed, or the program was cancelled.
        """


class Sandbox(Protocol):
    """One sandbox, which may not exist yet; `run` and `start` create it."""

    @property
    def id(self) -> str | None:
        """Its id; None as long as it is not known to exist."""

    @property
    def started_at(self) -> datetime | None:
        """When it began to run; None if it has not, or if the runtime has not reported it."""

    @property
    def info(self) -> SandboxInfo:
        """The description that the runtime gave when the sandbox was listed or found."""

    def start(self) -> Future[None]:
        """Begins to create it."""

    def run(self, command: Command) -> Future[Result]:
        """Runs a command in it to its end; cancelling the future kills the command and all it started.

        A sandbox that could not be created is created by the next call, and never twice.
        """

    def attach(
        self, argv: Sequence[str], *, stdin: bool, stdout: Output, stderr: Output, timeout_seconds: float
    ) -> AttachedProgram:
        """Starts a program in it whose streams are passed on.

        Args:
            stdin: Whether data will be written to its standard input; otherwise it is empty.
        """

    def open_terminal(
        self, argv: Sequence[str], *, columns: int, rows: int, output: Callable[[bytes], None]
    ) -> AttachedProgram:
        """Starts a program in it at a terminal of its own.

        Args:
            output: Receives what the terminal shows, on a thread of the provider; while it does not return, the program
                waits.

        Raises:
            UsageError: If the runtime has no terminals.
        """

    def read_file(self, path: str) -> Future[bytes]:
        """The content of a file in it; fails with an `OSError`, as for a file of this machine."""

    def write_file(self, path: str, content: bytes) -> Future[None]:
        """Creates or replaces a file in it; fails with an `OSError`, as for a file of this machine."""

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        """The output of its main program, in pieces as they come.

        Raises:
            NotRunningError: If the sandbox has ended and its output is not available any more.
            ServiceError: If the runtime does not answer or refuses.
        """

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        """Ends it with everything in it; done when it has ended.

        A sandbox that is being created and has no id yet may still come into existence; `Client.list` finds it then.

        Args:
            missing_ok: Whether a missing sandbox counts as stopped; otherwise it is an `UnknownSandboxError`.
        """


class Client(Protocol):
    """Makes and finds the sandboxes of one runtime."""

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> Sandbox:
        """A sandbox to be created on its first use.

        Args:
            tags: Its tags in addition to those of the client, encoded.
            cells: How many cells a worker sandbox holds at once, from 1 to 256; cells may still turn out to be
                impossible in it. 0 for any other sandbox.
            shape: What it is. Its image is named as a connection of `Connection.with_image` names it, and has no
                packages besides those in it; without one it has the image and the packages of the connection.

        Raises:
            UsageError: If no sandbox of the runtime can have this shape, as far as that is known here.
        """

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        """The sandboxes that have all these tags, including those that are being created.

        Args:
            ended: Also those that have ended, as far as the runtime still lists them.
        """

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        """One sandbox, also if it has ended and the runtime still lists it."""

    def ping(self) -> Future[None]:
        """Done when the runtime has answered a cheap call."""

    def abandon(self) -> None:
        """Forgets all sandboxes that it has created, because the runtime has ended; the runtime is not called again."""

    def close(self, timeout_seconds: float) -> None:
        """Ends the client; sandboxes that it has created may end with it.

        Raises:
            SandrlError: If that failed, or took longer.
        """


@dataclass(frozen=True, slots=True)
class UnreachableNode:
    """A machine of a runtime, or a process on this one, that could not be asked for its sandboxes."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """A directory of this machine that sandboxes see, read-only."""

    here: Path
    there: str


@dataclass(frozen=True, slots=True)
class Packages:
    """The Python packages that code in sandboxes may import.

    Attributes:
        asked: What the user asks for, as pip writes requirements.
        needed: What problems name, as requirements or modules; what cannot be installed is left out with a warning.
    """

    asked: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(ABC):
    """A runtime that is ready to create sandboxes.

    Attributes:
        address: Its address; a different address means a different runtime, with other sandboxes.
        isolation: How it isolates sandboxes on this machine; empty for other runtimes.
        overlay: Identifies what was installed of them; empty without any.
        memory_bytes: Memory of each sandbox; None if the runtime decides and does not report it.
        network: What programs in sandboxes may reach; None for what the runtime decides, which is nothing on this
            machine. Where it is anything, no sandbox has cells.
        has_own_memory: Whether this memory was requested.
        state_dir: Where the jobs that use it are registered; None for a program that keeps no state.
        way_out: The hint for the user if it does not answer.
        renew: Finds the runtime again after it ended, or starts it; None if this process cannot do that.
        connections: What sandboxes with all of these tags have done in the network, after a number that an earlier call
            has returned, and the number for the next call; None if the runtime does not report it. May raise
            `SandrlError`.
        reached: Where programs of a sandbox have been connected to, as `HOST:PORT`, after a number that an earlier call
            has returned, and the number for the next call; None if that is not known, and where the runtime does not
            report it. May raise `SandrlError`.
        user_of: The user that an image names, empty for user 0; None if the runtime does not report it.
        image_bytes: Size of the unpacked files of an image; None if it is not known.
        write_changes: Writes what a sandbox has changed in its image to a new file, as a layer of an image, and returns
            why that cannot be, if it cannot; None where the runtime cannot do that. May raise `SandrlError`.
        add_layers: Makes an image of another one and layers with their digests, and returns its name; None where this
            machine cannot do that. May raise `SandrlError`.
        remove_images: Removes images that `add_layers` has made; returns those that are still used.
        has_ended: Whether the runtime has ended with all of its sandboxes, determined on this machine without a call to
            the runtime; None if only a call can show that.
    """

    kind: str
    reason: str
    address: str
    image: str
    is_local: bool
    suggested_concurrency: int = 8
    isolation: str = ""
    has_site_packages: bool = False
    packages: Packages = Packages()
    overlay: str = ""
    memory_bytes: int | None = None
    has_own_memory: bool = False
    network: Network | None = None
    state_dir: Path | None = None
    prebuilt: SharedDirectory | None = None
    way_out: str = field(default="", compare=False)
    renew: Callable[[], Connection] | None = field(default=None, repr=False, compare=False)
    connections: Callable[[Collection[str], int], tuple[list[dict[str, Any]], int]] | None = field(
        default=None, repr=False, compare=False
    )
    reached: Callable[[str, int], tuple[list[str], int] | None] | None = field(default=None, repr=False, compare=False)
    has_ended: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    write_changes: Callable[[str, Path, int], str] | None = field(default=None, repr=False, compare=False)
    add_layers: Callable[[str, Sequence[tuple[str, Path]]], str] | None = field(default=None, repr=False, compare=False)
    remove_images: Callable[[Sequence[str]], list[str]] = field(default=lambda _: [], repr=False, compare=False)
    user_of: Callable[[str], str | None] = field(default=lambda _: None, repr=False, compare=False)
    image_bytes: Callable[[str], int | None] = field(default=lambda _: None, repr=False, compare=False)

    def named(self) -> tuple[str, str | None]:
        """The name of the runtime, and the image of its sandboxes, with which another process requests the same."""
        return str(self.kind), self.image

    @property
    def has_network(self) -> bool:
        """Whether programs in its sandboxes may reach anything that was asked for."""
        return self.network is not None and self.network.is_reachable

    @property
    def has_host_system(self) -> bool:
        """Whether sandboxes have the system of this machine, and not that of an image."""
        from sandrl.runtime.host.images import names_host_system

        return self.is_local and names_host_system(self.image)

    def with_image(self, image: str, emit: Emit = ignore) -> Connection:
        """The same runtime with another image, which is pulled first where that is up to this machine.

        Its packages are those in the image.

        Raises:
            SandrlError: If the runtime cannot have the image.
        """
        raise UsageError(
            f"the problem names the image {image}, and runtime {self.kind} has one image only",
            hint="use runtime local or aviato, or leave out `image`",
        )

    def concurrency(self, asked: int | None, *, least: int = 1, processes: int = 1) -> int | None:
        """How many completions to judge at once; `processes` share the runtime.

        Returns:
            The number; None if the job decides: the workers by their processors, and fresh sandboxes as is suggested.
        """
        if asked or processes > 1:
            return asked or max(self.suggested_concurrency // processes, 1)
        return least if least > self.suggested_concurrency else None

    def at_once(self, concurrency: int | None) -> int:
        """How many completions that is on all machines together; see `concurrency`."""
        return concurrency or self.suggested_concurrency

    def facts(self) -> dict[str, JsonValue]:
        """The facts that a run stores about it, in addition to the request."""
        return {"runtime_kind": str(self.kind), "runtime_reason": self.reason, "runtime_image": self.image}

    def addresses(self) -> tuple[str, ...]:
        """The addresses whose sandboxes its clients list."""
        return (self.address,)

    def unreached(self) -> tuple[UnreachableNode, ...]:
        """The machines or daemons that could not be asked so far; their sandboxes were not listed."""
        return ()

    @abstractmethod
    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> Client:
        """Opens a client.

        Args:
            tags: The tags of every sandbox it makes, encoded.
            max_lifetime_seconds: After this the runtime ends a sandbox whatever happens here; its own limit unless
                given.

        Raises:
            ForkedProcessError: If this process was forked from one that had used the runtime, and cannot use it.
            ServiceError: If the runtime cannot be used.
        """


class Need(StrEnum):
    """The needs of a runtime of sandrl's own, which `sandrl doctor` checks; needs that others depend on come first."""

    FILES = "files"
    """The state directory is the user's own, and programs may open enough files."""
    PORT = "port"
    """Processes of this machine can reach one another on 127.0.0.1."""
    ISOLATION = "isolation"
    """This machine can isolate code."""
    SERVICE = "service"
    """The sandbox service."""
    CLUSTER = "cluster"
    """Nodes of a cluster that can score, each with what its local runtime needs."""


class Provider(Protocol):
    """Makes one runtime's sandboxes available.

    Attributes:
        summary: A sentence for the user about where its sandboxes are, without a capital letter and a full stop.
        needs: What `sandrl doctor` checks for it; where it is empty, `doctor` shows what `find` and `absence` say.
    """

    summary: str
    needs: frozenset[Need]

    def connect(
        self,
        settings: Settings,
        *,
        reason: str,
        image: str | None,
        packages: Packages,
        private_hosts: tuple[str, ...] = (),
        emit: Emit,
    ) -> Connection:
        """Makes sure that the runtime is available.

        Args:
            private_hosts: Hosts of this machine and its networks that programs may reach while an image is built.

        Raises:
            AuthenticationError: If it needs credentials and there are none.
            RuntimeUnavailableError: If it cannot start, or isolate code, on this machine.
            UsageError: If the image or the packages are not available.
        """

    def find(self, settings: Settings, *, reason: str, emit: Emit = ignore) -> Connection | None:
        """The runtime in its current state, to list and stop existing sandboxes; never starts one.

        Returns:
            The runtime; None if nothing can be listed, for the reason that `absence` gives.

        Raises:
            AuthenticationError: If it needs credentials and there are none.
            MissingExtraError: If a package that it needs is not installed.
            ServiceError: If its machines must be listed, and it does not answer.
            UsageError: If its address is invalid.
        """

    def absence(self, settings: Settings) -> str:
        """Why `find` returned None, in a sentence for the user."""
