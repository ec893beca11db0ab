"""The native launcher: sandboxes from our own fork server, with no program but Python.

A fork server that ends is started again: at once the first time, later each further time in a row. Its sandboxes are
lost, and their clients get an error that says so. Creates that come in the meantime wait for the next fork server.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandrl.runtime.guest import syscalls
from sandrl.runtime.guest.rootfs import USER_ID
from sandrl.runtime.host.control_groups import pid_of
from sandrl.runtime.host.fork_server import ForkServer, kill_process
from sandrl.runtime.host.images import Image
from sandrl.runtime.host.launcher import BootRequest, Condition, Launcher, LaunchError
from sandrl.runtime.host.spaces import NoSpaceError, Spaces
from sandrl.runtime.host.users import HostUsers
from sandrl.runtime.limits import GATE_SOCKETS

logger = logging.getLogger(__name__)

ROOTS_VARIABLE, COPY = "SANDRL_IMAGE_ROOTS", "copy"

# The pause before a restart, by how many ends there were in a row, each soon after its start. After more than these,
# the launcher counts as broken, and creates fail at once.
_PAUSES_SECONDS = (0.0, 0.1, 0.5, 1.0, 2.0)
_LONG_PAUSE_SECONDS = 5.0
_SOON_SECONDS = 3.0
_PATIENCE_SECONDS = 10.0


class NativeLauncher(Launcher):
    """Keeps one fork server and talks to it; the template is mounted on an empty directory in that of the daemon."""

    name = "native"

    def __init__(
        self, images: Sequence[Image], state: Path, overlays: Path, layers: Path | None, users: HostUsers
    ) -> None:
        super().__init__(users)
        self._layers = layers
        self._spaces: Spaces | None = None
        self._space_of: dict[int, str] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self._images = images
        self._template = state / "template"
        self._overlays = overlays
        self._server: ForkServer | None = None
        self._serves = asyncio.Event()
        self._restarting: asyncio.Task[None] | None = None
        self._restarts = 0
        self._early_ends = 0
        self._started = 0.0
        self._last_end = ""
        self._is_closing = False

    @property
    def generation(self) -> int:
        return self._restarts + (not self._serves.is_set())

    async def start(self) -> None:
        if not syscalls.supported_machine():
            raise LaunchError(f"no system-call table for {syscalls.MACHINE} processors")
        self._template.mkdir(mode=0o755, exist_ok=True)
        if self._layers is not None:
            self._layers.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                self._spaces = Spaces(self._layers.parent / "spaces")
            except OSError as error:
                logger.warning("%s: no sandbox has files on disk: %s", self._layers.parent, error.strerror)
        await self._start_server()
        if self._spaces is not None:
            for name in self._spaces.leftovers():
                self._forget_space(name)

    async def _start_server(self) -> None:
        server = ForkServer(self._on_end)
        await server.start(self._config())
        self._server = server
        self._started = time.monotonic()
        self._serves.set()

    def _config(self) -> dict[str, Any]:
        return {
            "daemon_pid": os.getpid(),
            "template": str(self._template),
            "images": [dataclasses.asdict(image) for image in self._images],
            "overlays": str(self._overlays),
            "layers": "" if self._layers is None or self._shows_owners else str(self._layers),
            "spaces": "" if self._spaces is None else str(self._spaces.directory),
            **self.users.fork_server(),
        }

    def _on_end(self) -> None:
        self._serves.clear()
        if not self._is_closing and self._restarting is None:
            self._restarting = asyncio.ensure_future(self._restart())
            self._restarting.add_done_callback(self._note_restart)

    def _note_restart(self, _done: asyncio.Task[None]) -> None:
        self._restarting = None
        if self._server is not None and self._server.end:
            self._on_end()  # it ended again before this was noted

    async def _restart(self) -> None:
        while not self._is_closing:
            ended, self._server = self._server, None
            if ended is not None:
                self._last_end = await ended.reap()
                logger.error("the fork server ended, and with it every sandbox: %s", self._last_end)
                if time.monotonic() - self._started > _SOON_SECONDS:
                    self._early_ends = 0
            self._early_ends += 1
            await asyncio.sleep(_LONG_PAUSE_SECONDS if self._is_broken else _PAUSES_SECONDS[self._early_ends - 1])
            try:
                await self._start_server()
            except LaunchError as error:
                self._last_end = str(error)
                logger.error("the fork server does not start again: %s", error)
                continue
            self._restarts += 1
            logger.warning("the fork server was started again")
            return

    @property
    def _is_broken(self) -> bool:
        return self._early_ends > len(_PAUSES_SECONDS)

    async def condition(self) -> Condition:
        server = self._server
        if server is None or server.end:
            return Condition(False, f"the fork server is being restarted: {self._last_end or 'ended'}", self._restarts)
        if not await server.answers():
            return Condition(False, "the fork server does not answer", self._restarts)
        detail = f"restarted {self._restarts} times; the last one ended: {self._last_end}" if self._restarts else ""
        return Condition(True, detail, self._restarts)

    async def _ready(self) -> None:
        if self._serves.is_set():
            return
        if self._is_broken:
            raise LaunchError(
                f"the fork server ended {self._early_ends} times soon after its start; last: {self._last_end}; "
                f"it is started again every {_LONG_PAUSE_SECONDS:g} s"
            )
        try:
            await asyncio.wait_for(self._serves.wait(), _PATIENCE_SECONDS)
        except TimeoutError:
            raise LaunchError(f"the fork server is being restarted: {self._last_end}") from None

    async def _launch(self, request: BootRequest, agent_end: socket.socket, block: int) -> int:
        if self._server is None:
            raise LaunchError("the fork server ended")
        of_image = request.layers is not None
        if of_image and self._layers is None:
            raise LaunchError("this runtime has no store of images")
        if of_image and self.copies_images and not request.cells:
            request = dataclasses.replace(request, storage_bytes=request.storage_bytes or request.disk_bytes)
        space = self._make_space(request, block) if of_image else ""
        try:
            pidfd = await self._boot(self._server, request, agent_end, block, space)
        except BaseException:
            self._forget_space(space)
            raise
        self._space_of[pidfd] = space
        return pidfd

    async def _boot(
        self, server: ForkServer, request: BootRequest, agent_end: socket.socket, block: int, space: str
    ) -> int:
        of_image, together = request.layers is not None, request.together()
        of_gate = 0 if request.network is None else GATE_SOCKETS
        message = {
            "ids": self.users.ids(block, of_image=of_image, for_cells=request.cells > 0),
            # Who counts for the processes of all users together.
            "owner": self.users.inner_uid(block) if of_image else USER_ID,
            **dataclasses.asdict(dataclasses.replace(together, network=None, sockets=together.sockets + of_gate)),
            # The rest of what it may reach is decided outside.
            "loopback_ports": None if request.network is None else request.network.loopback_ports,
            "space": space,
            "is_copied": self.copies_images,
        }
        if not (of_image and self._shows_owners):
            return await server.boot(message, [agent_end])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs:
            pidfd = await server.boot(message, [agent_end, theirs])
            try:
                self._give_layers(pidfd, ours)
            except BaseException:
                kill_process(pidfd)
                os.close(pidfd)
                raise
        return pidfd

    @property
    def copies_images(self) -> bool:
        return os.environ.get(ROOTS_VARIABLE) == COPY or (self._server is not None and not self._server.mounts_overlays)

    def _make_space(self, request: BootRequest, block: int) -> str:
        if not (request.storage_bytes or self.copies_images):
            return ""
        if self._spaces is None:
            raise LaunchError("no files of a sandbox can be on disk: the store of images cannot be written to")
        owner = self.users.host_uid(block) if os.getuid() == 0 else None
        try:
            return self._spaces.make(owner, request.storage_bytes)
        except (NoSpaceError, OSError) as error:
            raise LaunchError(f"no files of a sandbox can be on disk: {error}") from error

    def gone(self, pidfd: int) -> None:
        super().gone(pidfd)
        self._forget_space(self._space_of.pop(pidfd, ""))

    def _forget_space(self, name: str) -> None:
        if name:
            removal = asyncio.ensure_future(self._remove_space(name))
            self._removals.add(removal)
            removal.add_done_callback(self._removals.discard)

    async def _remove_space(self, name: str) -> None:
        assert self._spaces is not None, "it has made this one"
        if await asyncio.to_thread(self._spaces.remove, name):
            return
        with suppress(LaunchError):  # the next daemon removes it
            if not self._is_closing:
                await self._ready()
            if self._server is not None:
                await self._server.remove_space(name)

    @property
    def _shows_owners(self) -> bool:
        # Whether files of images have the owners that they have in their archives: only root can keep and show them.
        return os.getuid() == 0

    def _give_layers(self, pidfd: int, sender: socket.socket) -> None:
        try:
            namespace = os.open(f"/proc/{pid_of(pidfd)}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
            try:
                mount = syscalls.clone_mount(str(self._layers))
                try:
                    syscalls.set_mount_attributes(
                        syscalls.ATTR_RDONLY | syscalls.ATTR_NODEV, mount=mount, ids=namespace
                    )
                    socket.send_fds(sender, [b"m"], [mount])
                finally:
                    os.close(mount)
            finally:
                os.close(namespace)
        except OSError as error:
            raise LaunchError(
                f"the layers in {self._layers} cannot be shown with the owners of a sandbox: {error.strerror or error}",
                "set SANDRL_CACHE_DIR to a directory on ext4, xfs, btrfs or tmpfs",
            ) from error

    async def close(self) -> None:
        self._is_closing = True
        self._serves.clear()
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.wait([self._restarting])
        for pidfd in list(self._space_of):
            kill_process(pidfd)
            self._forget_space(self._space_of.pop(pidfd))
        if self._removals:
            await asyncio.wait(self._removals)
        if self._server is not None:
            await self._server.close()
            self._server = None
        if self._spaces is not None:
            self._spaces.close()
        await super().close()
