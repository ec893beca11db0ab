"""The native launcher: sandboxes from our own fork server, with no program but Python."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sandrl.runtime.guest import syscalls
from sandrl.runtime.host.images import Image
from sandrl.runtime.host.launcher import BootRequest, LaunchError

UNPRIVILEGED_UID = 65534
"""Who a sandbox is on the host when the daemon runs as root: root itself is exempt from process limits."""

_START_TIMEOUT_SECONDS = 20.0
_MAX_REPLY_BYTES = 1 << 16
_SOURCE_ROOT = Path(__file__).resolve().parents[3]
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); from sandrl.runtime.guest import forkserver; forkserver.main()"
)


class NativeLauncher:
    """Talks to one fork server.

    Args:
        images: Interpreters to offer.
        state: Directory of the daemon; the template is mounted on an empty directory in it.
        overlays: Directory of package overlays.
    """

    name = "native"

    def __init__(self, images: Sequence[Image], state: Path, overlays: Path) -> None:
        self._images = images
        self._template = state / "template"
        self._overlays = overlays
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._next_id = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the fork server's outer process."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the fork server and wait until it can boot sandboxes."""
        if not syscalls.supported_machine():
            raise LaunchError(f"no system-call table for {syscalls.MACHINE} processors")
        self._loop = asyncio.get_running_loop()
        self._template.mkdir(mode=0o755, exist_ok=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - its start is what the caller waits for
                [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, str(_SOURCE_ROOT)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": os.defpath},
            )
        ours.setblocking(False)
        self._socket = ours
        config = {
            "daemon_pid": os.getpid(),
            "template": str(self._template),
            "images": [dataclasses.asdict(image) for image in self._images],
            "overlays": str(self._overlays),
            "unprivileged_uid": UNPRIVILEGED_UID,
        }
        ours.send(json.dumps(config).encode())
        try:
            reply = json.loads(
                await asyncio.wait_for(self._loop.sock_recv(ours, _MAX_REPLY_BYTES), _START_TIMEOUT_SECONDS)
            )
        except (TimeoutError, ValueError, OSError):
            reply = {"error": "the fork server did not answer"}
        if "error" in reply:
            await self.close()
            raise LaunchError(reply["error"])
        self._loop.add_reader(ours.fileno(), self._receive)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data, descriptors, _flags, _address = socket.recv_fds(self._socket, _MAX_REPLY_BYTES, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._fail_waiting("the fork server ended")
            return
        reply = json.loads(data)
        waiter = self._waiting.pop(reply["id"], None)
        if waiter is None or waiter.done():
            for descriptor in descriptors:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                os.close(descriptor)
        elif descriptors:
            waiter.set_result(descriptors[0])
        else:
            waiter.set_exception(LaunchError(reply.get("error", "no process")))

    def _fail_waiting(self, reason: str) -> None:
        assert self._loop is not None
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(LaunchError(reason))
        self._waiting.clear()

    async def launch(self, request: BootRequest, agent_end: socket.socket) -> int:
        """See `Launcher.launch`."""
        assert self._loop is not None
        if self._socket is None or self._process is None or self._process.poll() is not None:
            raise LaunchError("the fork server ended")
        self._next_id += 1
        message = {"id": self._next_id, **dataclasses.asdict(request)}
        waiter = self._waiting[self._next_id] = self._loop.create_future()
        data = json.dumps(message).encode()
        while True:
            try:
                socket.send_fds(self._socket, [data], [agent_end.fileno()])
                break
            except BlockingIOError:
                await asyncio.sleep(0.005)  # hundreds of boots are queued; the fork server is behind
            except OSError as error:
                raise LaunchError(f"the fork server ended: {error.strerror}") from error
        pidfd: int = await waiter
        return pidfd

    async def close(self) -> None:
        """Kill the fork server; the kernel kills every sandbox with it."""
        if self._socket is not None:
            self._fail_waiting("the runtime is stopping")
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
