"""One fork server as the daemon sees it: its processes, its socket, and the boots that wait for an answer.

The daemon notices the end of a fork server at once, by the end of its socket, which the kernel closes before it kills
the sandboxes. A fork server that exists but does not answer is killed, so that there is only one way to be broken.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sandrl.runtime import libraries
from sandrl.runtime.guest.forkserver import MAX_REQUEST_BYTES
from sandrl.runtime.host.launcher import InterpreterError, LaunchError, RefusedLaunchError

_START_TIMEOUT_SECONDS = 20.0
_MAX_REPLY_BYTES = 1 << 16
# A boot takes milliseconds. The clock is the daemon's own running, in ticks: what stops both is no reason to kill.
_TICK_SECONDS = 1.0
_SILENT_TICKS = 10
_ANSWER_SECONDS = 2.0
_EXIT_SECONDS = 2.0
_ENDED = "its process exited"
_SOURCE_ROOT = Path(__file__).resolve().parents[3]
_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv[1]); from sandrl.runtime.guest import forkserver; forkserver.main()"
)


class ForkServer:
    """One run of the fork server: `on_end` is called once if it ends by itself after `start` has returned.

    Attributes:
        end: Why it ended; empty while it serves.
        mounts_overlays: Whether sandboxes can mount overlays of images.
    """

    def __init__(self, on_end: Callable[[], None]) -> None:
        self.end = ""
        self.mounts_overlays = False
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._pidfd = -1
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._is_serving = False
        self._waiting: dict[int, asyncio.Future[int | None]] = {}
        self._next_id = 0
        self._tick: asyncio.TimerHandle | None = None
        self._ticked_at = 0.0
        self._silent_ticks = 0

    async def start(self, config: Mapping[str, Any]) -> None:
        """Start it and wait until it can boot sandboxes.

        Raises:
            LaunchError: If it cannot be started.
        """
        environment = {"PATH": os.defpath, **libraries.start_environment()}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._socket = ours
        self._loop.add_reader(ours.fileno(), self._receive)
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: ASYNC220 - its start is what the caller waits for
                    [sys.executable, "-I", "-S", "-c", _BOOTSTRAP, str(_SOURCE_ROOT)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    env=environment,
                    # Ctrl-C and a closed terminal are for the process that owns it, not for its sandboxes.
                    start_new_session=True,
                )
            ours.send(json.dumps(config).encode())
            await asyncio.wait_for(self._ready, _START_TIMEOUT_SECONDS)
        except (TimeoutError, OSError, LaunchError) as error:
            await self.close()
            if self._ready.done() and not self._ready.cancelled():
                self._ready.exception()  # seen: the configuration may fail to be sent first
            missing = await asyncio.to_thread(libraries.missing_library, environment)
            if missing is not None:
                why = f"the fork server cannot be started: {sys.executable} does not find {missing}"
                raise InterpreterError(why, libraries.advice(missing)) from error
            if isinstance(error, LaunchError):
                raise
            why = "did not answer" if isinstance(error, TimeoutError) else f"cannot be started: {error.strerror}"
            raise LaunchError(f"the fork server {why}") from error
        except BaseException:
            await self.close()
            raise
        self._is_serving = True

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data, descriptors, _flags, _address = socket.recv_fds(self._socket, _MAX_REPLY_BYTES, 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._note_end()
            return
        self._silent_ticks = 0
        reply = json.loads(data)
        if "id" in reply:
            self._answer(reply, descriptors)
        elif self._ready.done():
            _discard(descriptors)
        elif "ready" in reply:
            (self._pidfd,) = descriptors
            self.mounts_overlays = bool(reply["mounts_overlays"])
            self._ready.set_result(None)
        else:
            self._ready.set_exception(LaunchError(reply.get("error", "the fork server did not start")))

    def _answer(self, reply: dict[str, Any], descriptors: list[int]) -> None:
        waiter = self._waiting.pop(reply["id"], None)
        if not self._waiting:
            self._stop_watching()
        if waiter is None or waiter.done():
            _discard(descriptors)
        elif "error" in reply:
            waiter.set_exception(LaunchError(reply["error"]))
        else:
            waiter.set_result(descriptors[0] if descriptors else None)

    async def boot(self, request: Mapping[str, Any], given: Sequence[socket.socket]) -> int:
        """Ask for a sandbox, whose agent speaks on the first socket that it is given.

        Returns:
            A pidfd of its first process, which the caller owns.

        Raises:
            LaunchError: If it cannot be started.
        """
        pidfd = await self._ask(request, [each.fileno() for each in given])
        assert pidfd is not None, "an answer without a process is an error"
        return pidfd

    async def remove_space(self, name: str) -> None:
        """Begin to remove a directory of sandboxes that has files of users that only the fork server has.

        Raises:
            LaunchError: If it has ended.
        """
        await self._ask({"remove": name}, [])

    async def answers(self) -> bool:
        try:
            await asyncio.wait_for(self._ask({}, []), _ANSWER_SECONDS)
        except (LaunchError, TimeoutError):
            return False
        return True

    async def _ask(self, request: Mapping[str, Any], descriptors: list[int]) -> int | None:
        self._next_id += 1
        number = self._next_id
        data = json.dumps({"id": number, **request}).encode()
        if len(data) > MAX_REQUEST_BYTES:
            # It would be cut off, which ends the fork server.
            most = f"{MAX_REQUEST_BYTES >> 10} KiB"
            raise RefusedLaunchError(f"its user, layers, directories and mounts take more than {most} to name", "files")
        waiter = self._waiting[number] = self._loop.create_future()
        self._watch()
        try:
            while not waiter.done():
                if self._socket is None:
                    raise LaunchError(f"the fork server ended: {self.end}")
                try:
                    socket.send_fds(self._socket, [data], descriptors)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.005)  # hundreds of boots are queued; the fork server is behind
                except OSError:
                    self._note_end()
            answer: int | None = await waiter
            return answer
        finally:
            # An answer that comes later is for nobody; what it brings is killed.
            self._waiting.pop(number, None)
            if waiter.done() and not waiter.cancelled():
                waiter.exception()  # seen: a boot may end for another reason first

    def _watch(self) -> None:
        if self._tick is None and not self.end:
            self._silent_ticks, self._ticked_at = 0, time.monotonic()
            self._tick = self._loop.call_later(_TICK_SECONDS, self._look)

    def _look(self) -> None:
        # Kill a server that has not answered for a while in which this process ran.
        self._tick = None
        if self.end or not self._waiting:
            return
        now = time.monotonic()
        if now - self._ticked_at < 2 * _TICK_SECONDS:
            self._silent_ticks += 1
        self._ticked_at = now
        if self._silent_ticks >= _SILENT_TICKS:
            self._note_end(f"it did not answer for {_SILENT_TICKS * _TICK_SECONDS:g} s")
        else:
            self._tick = self._loop.call_later(_TICK_SECONDS, self._look)

    def _note_end(self, reason: str = _ENDED) -> None:
        if self.end:
            return
        # The inner process: the outer one waits for it, and repeats how it ended.
        kill_process(self._pidfd)
        self.end = reason
        waiters: list[asyncio.Future[Any]] = [self._ready, *self._waiting.values()]
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(LaunchError(f"the fork server ended: {self.end}"))
        self._waiting.clear()
        self._let_go()
        if self._is_serving:
            self._is_serving = False
            self._on_end()

    async def reap(self) -> str:
        """Wait for its processes, killing what is left, and say how it ended."""
        assert self._process is not None
        try:
            code = await asyncio.to_thread(self._process.wait, _EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = await asyncio.to_thread(self._process.wait)
            return self.end
        number = -code if code < 0 else 256 - code if code > 128 else 0
        if self.end == _ENDED and number:
            with contextlib.suppress(ValueError):
                self.end = f"killed by {signal.Signals(number).name}"
        return self.end

    def _stop_watching(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def _let_go(self) -> None:
        self._stop_watching()
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    async def close(self) -> None:
        self._is_serving = False
        self._note_end("the runtime is stopping") if self._process is not None else self._let_go()
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)


def kill_process(pidfd: int) -> None:
    """Kill a process that may have ended; there is none behind a negative number."""
    if pidfd >= 0:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _discard(pidfds: list[int]) -> None:
    for pidfd in pidfds:
        kill_process(pidfd)
        os.close(pidfd)
