"""One sandbox on this machine: booted, programs started in it, and its certain end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandrl.runtime import limits
from sandrl.runtime.guest import wire
from sandrl.runtime.host.channel import AgentChannel, are_streams, discard
from sandrl.runtime.host.control_groups import ControlGroups, Group, GroupLimits, pid_of
from sandrl.runtime.host.gate import GateError, Passage
from sandrl.runtime.host.images import Image, StoreImage
from sandrl.runtime.host.launcher import BootRequest, Launcher, LaunchError, RefusedLaunchError
from sandrl.runtime.host.process import Exit, GuestProcess
from sandrl.runtime.usage import family

_KILLED = 128 + signal.SIGKILL


class SandboxGoneError(Exception):
    """The sandbox ended, so nothing can be started in it."""


class DeprivedError(SandboxGoneError):
    """The host has run out of what a program needs, so nothing that it did would say anything about it."""


class StartError(Exception):
    """A program could not be started; its code is what a shell would exit with: 127 not found, 126 not executable."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _shortage(quota: object) -> str:
    return f"the quota of {str(quota)[:40]} that all programs of this host user share is used up"


class HostSandbox:
    """A running sandbox. Build it with `boot`.

    Attributes:
        passage: What the gate does for it; None without a network.
        ended: Set once its last process is gone.
        on_limit: Called with the name of a shared limit each time the sandbox hit one.
    """

    def __init__(
        self, launcher: Launcher, request: BootRequest, groups: ControlGroups | None, control: socket.socket
    ) -> None:
        self.request = dataclasses.replace(request, in_group=groups is not None)
        self._groups = groups
        self._group: Group | None = None
        self.ended = asyncio.Event()
        self.on_limit: Callable[[str], None] = lambda _limit: None
        self._pidfd = -1
        self._launcher, self._generation = launcher, launcher.generation
        self._channel = AgentChannel(control, self._on_message, self._on_agent_gone)
        self._booted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._starting: dict[int, asyncio.Future[GuestProcess]] = {}
        self._processes: dict[int, GuestProcess] = {}
        self._exits: dict[int, Exit] = {}
        self._next_id = 0
        self.passage: Passage | None = None

    @classmethod
    async def boot(cls, launcher: Launcher, request: BootRequest, groups: ControlGroups | None = None) -> HostSandbox:
        """Start a sandbox and wait until programs can be started in it.

        Raises:
            LaunchError: If that fails, with the step that did.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        sandbox = cls(launcher, request, groups, ours)
        try:
            with theirs:
                sandbox._pidfd = await launcher.launch(sandbox.request, theirs)
            asyncio.get_running_loop().add_reader(sandbox._pidfd, sandbox._on_process_gone)
            await asyncio.wait_for(sandbox._booted, limits.BOOT_TIMEOUT_SECONDS)
            sandbox._enter_group()
        except BaseException as error:
            sandbox._booted.cancel()
            await sandbox.destroy()
            if isinstance(error, TimeoutError):
                message = f"the sandbox did not boot within {limits.BOOT_TIMEOUT_SECONDS:g} s"
                raise LaunchError(message) from None
            raise
        return sandbox

    def _enter_group(self) -> None:
        # Move the agent, which has started no program yet, into a group; its programs inherit it.
        if self._groups is None:
            return
        try:
            self._group = self._groups.take(GroupLimits.of(self.request))
            self._group.add(family(pid_of(self._pidfd)))
        except OSError as error:
            raise LaunchError(f"control group: {error.filename or ''} {error.strerror}") from error

    def _note_memory_kills(self) -> None:
        if self._group is not None and self._group.memory_kills():
            self.on_limit("memory")

    @property
    def pid(self) -> int:
        """Process id of its first process on the host; 0 once it is gone."""
        return 0 if self._pidfd < 0 else pid_of(self._pidfd)

    @property
    def alive(self) -> bool:
        """Whether programs can still be started in it.

        Its agent is seen to end before its last process is, because the kernel closes the socket of a process first:
        in between, nobody would answer.
        """
        return self._pidfd >= 0 and self._channel.is_open

    async def is_lost(self) -> bool:
        """Whether the launcher failed since it started this sandbox, which ended every sandbox then."""
        return await self._launcher.has_failed_since(self._generation)

    async def unexpected_end(self, reason: str) -> str:
        """Why it has ended, which nobody has asked for; `reason` is what is known of it."""
        if await self.is_lost():
            return limits.LOST_REASON
        return ": ".join(filter(None, [reason, "the sandbox's first process ended unexpectedly"]))

    def _on_message(self, message: wire.Message, descriptors: list[int]) -> None:
        event = message["event"]
        if event == "ready" and not self._booted.done():
            self._note_boot(descriptors)
            return
        if not are_streams(descriptors):
            discard(descriptors)
            raise wire.ProtocolError("descriptors that are not streams")
        if (
            event == "started"
            and len(descriptors) in (1, 2, 3)
            and (waiter := self._starting.pop(message["id"], None))
            and not waiter.done()
        ):
            # A terminal is one descriptor for both directions; merged output comes without a third.
            stdout = descriptors[1] if len(descriptors) > 1 else descriptors[0]
            stderr = descriptors[2] if len(descriptors) > 2 else None
            process = self._processes[message["id"]] = GuestProcess(descriptors[0], stdout, stderr)
            waiter.set_result(process)
            return
        discard(descriptors)
        if event == "started":
            self.kill(message["id"])  # whoever asked for it has gone away
        elif event == "exit":
            if message["code"]:
                self._note_memory_kills()
            # A program that ended well did so in spite of the shortage; what else it did says nothing.
            why = _shortage(message["quota"]) if message["code"] and message.get("quota") else ""
            self._note_exit(message["id"], Exit(int(message["code"]), float(message["cpu_seconds"]), why))
        elif event == "pong":
            self._confirm_exit(message["id"])
        elif event in ("deprived", "failed"):
            if (waiter := self._starting.pop(message["id"], None)) and not waiter.done():
                failed = event == "failed" and StartError(int(message["code"]), str(message["message"]))
                waiter.set_exception(failed or DeprivedError(_shortage(message["quota"])))
        elif event == "limit":
            self.on_limit(str(message["limit"]))
        elif event == "boot_failed" and not self._booted.done():
            error, field = str(message["error"]), str(message.get("field") or "")
            self._booted.set_exception(RefusedLaunchError(error, field) if field else LaunchError(error))

    def _note_boot(self, sockets: list[int]) -> None:
        # No program has run yet: the sockets are those that the fork server has made in its network namespace.
        try:
            if sockets and self.request.network is not None:
                self.passage = self._launcher.gate.open(self.request.network, sockets)
        except GateError as error:
            self._booted.set_exception(LaunchError(str(error)))
        else:
            self._booted.set_result(None)
        finally:
            discard(sockets)

    def _note_exit(self, exec_id: int, end: Exit) -> None:
        # A program ended. One that failed counts once the agent has answered after it. When the fork server dies, the
        # kernel kills all processes of all sandboxes in the order of their numbers, which may have wrapped around: a
        # program can end before its agent does. Such an end says nothing about the program.
        if end.code == 0:
            if process := self._processes.pop(exec_id, None):
                process.finished(end)
        elif exec_id in self._processes:
            self._exits[exec_id] = end
            self._channel.send({"op": "ping", "id": exec_id})

    def _confirm_exit(self, exec_id: int) -> None:
        process, end = self._processes.pop(exec_id, None), self._exits.pop(exec_id, None)
        if process is not None and end is not None:
            process.finished(end)

    def _on_agent_gone(self) -> None:
        if not self._booted.done():
            self._booted.set_exception(LaunchError("the sandbox ended while it booted"))
        self._kill_all()
        for waiter in self._starting.values():
            if not waiter.done():
                waiter.set_exception(SandboxGoneError("the sandbox ended"))
        self._starting.clear()
        for process in self._processes.values():
            process.finished(Exit(_KILLED, message="the sandbox ended"))
        self._processes.clear()

    def _on_process_gone(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self._launcher.gone(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        self._channel.close()
        if self._groups is not None and self._group is not None:
            self._note_memory_kills()
            self._groups.release(self._group)
            self._group = None
        if self.passage is None:
            self.ended.set()
            return
        closing = asyncio.ensure_future(self._launcher.gate.close(self.passage))
        closing.add_done_callback(lambda _: self.ended.set())

    def _kill_all(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        *,
        directory: str | None = None,
        terminal: tuple[int, int] | None = None,
        merge_output: bool = False,
    ) -> tuple[int, GuestProcess]:
        """Start a program with this environment alone, on a terminal if columns and rows of one are given.

        Returns:
            A number to `kill` it by, and the program.

        Raises:
            StartError: If it cannot be started.
            SandboxGoneError: If the sandbox ended.
        """
        words = [*argv, *environment, *environment.values()]
        if sum(len(os.fsencode(word)) + 1 for word in words) > limits.MAX_COMMAND_BYTES:
            raise StartError(126, f'exec: "{argv[0][:100]}": argument list too long')
        request: dict[str, Any] = {"argv": list(argv), "env": dict(environment), "cwd": directory}
        if terminal is not None:
            request["tty"] = list(terminal)
        if merge_output:
            request["merge"] = True
        return await self._start(request)

    async def run(self, argv: Sequence[str], image: Image | StoreImage, stdin: bytes = b"") -> tuple[Exit, bytes]:
        """How a program with few variables ends, and all that it printed; see `start`."""
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", **image.environment}
        _, process = await self.start(argv, environment, directory=image.directory, merge_output=True)
        await process.write_stdin(stdin)
        process.close_stdin()
        output = b""
        while not isinstance(chunk := await process.next_output(), Exit):
            output += chunk[1]
        return chunk, output

    async def open_file(self, operation: str, path: str, left_out: Sequence[str] = ()) -> tuple[int, GuestProcess]:
        """Start to `read` or `write` a file, or `archive` or `unpack` a directory or a `layer`, through three pipes.

        A layer has nothing of the paths `left_out`.
        """
        most = limits.FILE_OPERATION_MAX_BYTES
        return await self._start({"file": operation, "path": path, "max_bytes": most, "left_out": list(left_out)})

    async def _start(self, request: dict[str, Any]) -> tuple[int, GuestProcess]:
        if not self.alive:
            raise SandboxGoneError("the sandbox ended")
        self._next_id += 1
        exec_id = self._next_id
        message = {"op": "exec", "id": exec_id, **request}
        if len(wire.encode(message)) > wire.MAX_FRAME_BYTES:
            raise StartError(126, "the request is too long")  # the agent would end, and the sandbox with it
        waiter = self._starting[exec_id] = asyncio.get_running_loop().create_future()
        self._channel.send(message)
        try:
            return exec_id, await asyncio.wait_for(waiter, limits.START_TIMEOUT_SECONDS)
        except TimeoutError:
            # Its agent is stuck, and with it everything that watches over this sandbox.
            self._kill_all()
            raise SandboxGoneError("the sandbox stopped answering") from None

    def kill(self, exec_id: int) -> None:
        self._channel.send({"op": "kill", "id": exec_id, "tree": True})

    def signal(self, exec_id: int, number: int) -> None:
        self._channel.send({"op": "kill", "id": exec_id, "signal": number})

    async def destroy(self) -> None:
        """Kill everything in it and wait until it is gone."""
        self._kill_all()
        if self._pidfd >= 0:
            await self.ended.wait()
        else:
            self._channel.close()
            self.ended.set()
