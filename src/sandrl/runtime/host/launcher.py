"""The interface of a launcher, which starts sandboxes one way."""

from __future__ import annotations

import dataclasses
import os
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from sandrl.runtime import limits
from sandrl.runtime.guest import accounts
from sandrl.runtime.guest.processes import OPEN_FILES
from sandrl.runtime.host.gate import Gate
from sandrl.runtime.host.users import HostUsers
from sandrl.runtime.network import Network

_SHARE_OF_MEMORY = 0.75
_SHARE_OF_PROCESSES = 0.25
"""What one worker may have of the machine; half of its process numbers is for all sandboxes together."""


def worker_memory_bytes() -> int:
    """The most memory that one worker may have, however many cells it is for."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY)


class LaunchError(Exception):
    """A sandbox, or the launcher itself, could not be started; the message says which step failed."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class RefusedLaunchError(LaunchError):
    """A sandbox asks for what this machine or its image cannot give, so no other attempt can succeed.

    Args:
        field: Of a container, which asks for it; or `network`, of the sandbox.
    """

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class InterpreterError(LaunchError):
    """The interpreter that runs sandrl cannot be started again, so no launcher can start."""


@dataclass(frozen=True)
class VolumeMount:
    """Where a sandbox sees a volume, a directory of its own, or the part of it at `sub_path` (empty: all of it)."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class BootRequest:
    """What a sandbox is started with.

    Attributes:
        image: Version of the interpreter (`3.11`) of the host's system; empty if it has layers.
        layers: Directories of the store of images, the lowest first; None for the host's system.
        user: Who programs run as, as an image names it; empty for user 0, or that of the host's system.
        directories: Absolute paths to make, and to make writable, besides the usual ones.
        memory_bytes: Limit of all its processes together.
        disk_bytes: Limit of all its files in memory together.
        storage_bytes: Limit of what it writes in its image to disk; 0 if that is in memory, too.
        in_group: Whether a control group counts its memory, so that the agent need not estimate it.
        cells: How many cells it may hold at once, each with these limits; 0 if it is no worker.
        mounts: Its volumes.
        capabilities: What user 0 of an image has, of those that it can have.
        gains_privileges: Whether setuid programs of an image work.
        read_only: Whether the root of an image is.
        pretends_owners: Whether changes of owners succeed without an effect, if its user 0 is its only user.
        processors: How many all its processes may use together, if control groups can limit that; None: all.
        network: What it may reach; None: nothing but its own loopback.
    """

    image: str
    layers: tuple[str, ...] | None = None
    user: str = ""
    overlay: str | None = None
    directories: tuple[str, ...] = ()
    memory_bytes: int = limits.MEMORY_BYTES
    disk_bytes: int = limits.DISK_BYTES
    storage_bytes: int = 0
    inodes: int = limits.INODES
    processes: int = limits.PROCESSES
    sockets: int = limits.SOCKETS
    open_files: int = OPEN_FILES
    in_group: bool = False
    cells: int = 0
    mounts: tuple[VolumeMount, ...] = ()
    capabilities: tuple[str, ...] = accounts.OF_PROGRAMS
    gains_privileges: bool = True
    read_only: bool = False
    processors: float | None = None
    pretends_owners: bool = False
    network: Network | None = None

    def together(self) -> BootRequest:
        """With what all cells may use at once; its own disk stays as it is, because each cell has one of its own."""
        if not self.cells:
            return self
        processes = int(int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii")) * _SHARE_OF_PROCESSES)
        return dataclasses.replace(
            self,
            memory_bytes=max(self.memory_bytes, min(self.cells * self.memory_bytes, worker_memory_bytes())),
            processes=max(self.processes, min(self.cells * self.processes, processes)),
            sockets=self.cells * self.sockets,
        )


@dataclass(frozen=True)
class Condition:
    """How a launcher is, at this moment."""

    is_well: bool = True
    detail: str = ""
    restarts: int = 0


class Launcher(ABC):
    """Starts sandboxes one way, and gives each a block of host user ids as long as it has a process."""

    name: ClassVar[str]

    def __init__(self, users: HostUsers) -> None:
        self.users = users
        self.gate = Gate()
        self._blocks: dict[int, int] = {}

    @property
    def copies_images(self) -> bool:
        """Whether the root of a sandbox from an image is a copy, because the kernel refuses overlays."""
        return False

    @property
    def generation(self) -> int:
        """Another number than before means that all sandboxes started before are lost."""
        return 0

    @abstractmethod
    async def start(self) -> None:
        """Get ready to launch.

        Raises:
            LaunchError: If this way does not work on this machine.
        """

    async def launch(self, request: BootRequest, agent_end: socket.socket) -> int:
        """Start one sandbox whose agent speaks on `agent_end`; the agent itself says when it is ready.

        Returns:
            A pidfd of its first process, which the caller owns.

        Raises:
            LaunchError: If it cannot be started.
        """
        await self._ready()
        block = self.users.take()
        if block is None:
            raise LaunchError("every host uid of the range is in use by a sandbox")
        try:
            pidfd = await self._launch(request, agent_end, block)
        except BaseException:
            # No process has it: what an answer brings that nobody waits for is killed before it runs a program.
            self.users.give_back(block)
            raise
        self._blocks[pidfd] = block
        return pidfd

    async def _ready(self) -> None:  # noqa: B027 - not every launcher has to wait
        # Waits until a launch need not wait: the blocks of sandboxes that end meanwhile come back.
        pass

    @abstractmethod
    async def _launch(self, request: BootRequest, agent_end: socket.socket, block: int) -> int: ...

    def gone(self, pidfd: int) -> None:
        """The sandbox behind a pidfd from `launch` has no process left, and the pidfd is about to be closed."""
        block = self._blocks.pop(pidfd, None)
        if block is not None:
            self.users.give_back(block)

    async def has_failed_since(self, generation: int) -> bool:
        """Whether sandboxes that were started then are lost."""
        await self.condition()  # a sandbox may be seen to end before the launcher is
        return self.generation != generation

    async def condition(self) -> Condition:
        """How the launcher is: asked of its processes, not remembered."""
        return Condition()

    @abstractmethod
    async def close(self) -> None:
        """End the launcher and everything it started."""
        self.gate.end()
        self.users.close()
