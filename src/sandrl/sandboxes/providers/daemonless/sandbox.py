"""One sandbox of this process, created when it is first used, and programs attached to it."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import math
import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from datetime import UTC, datetime

from sandrl.errors import InfrastructureError, NotRunningError, UnknownSandboxError, UsageError
from sandrl.runtime import limits
from sandrl.runtime.guest import rootfs
from sandrl.runtime.host.files import FileError, read_file, write_file
from sandrl.runtime.host.launcher import BootRequest, LaunchError
from sandrl.runtime.host.process import Exit, GuestProcess, Stream
from sandrl.runtime.host.sandbox import HostSandbox, SandboxGoneError, StartError
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.daemonless.runtime import HostThread, Value
from sandrl.sandboxes.providers.protocol import AttachedProgram, Output, Result, SandboxInfo


class DaemonlessSandbox:
    # What has a leading underscore runs on the loop.

    def __init__(
        self, runtime: HostThread, request: BootRequest, tags: tuple[str, ...], lifetime_seconds: float
    ) -> None:
        self.runtime = runtime
        self._request = request
        self._creation: asyncio.Task[HostSandbox] | None = None
        self._environment: dict[str, str] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self.info = SandboxInfo(
            id="",
            status="creating",
            tags=tags,
            max_lifetime_seconds=lifetime_seconds,
            resources=(("memory", str(request.memory_bytes)),),
            runner=f"process {os.getpid()}",
        )

    @property
    def id(self) -> str | None:
        return self.info.id or None

    @property
    def started_at(self) -> datetime | None:
        return self.info.started_at

    def start(self) -> Future[None]:
        async def start() -> None:
            await self._host()

        return self.runtime.submit(start())

    async def _host(self) -> HostSandbox:
        if self._creation is None or (self._creation.done() and self.id is None):
            self._creation = asyncio.ensure_future(self._create())
            self.runtime.coming.add(self)
            self._creation.add_done_callback(lambda _: self.runtime.coming.discard(self))
        # Whoever gives up waiting does not undo what others wait for.
        return await asyncio.shield(self._creation)

    async def _create(self) -> HostSandbox:
        image = self.runtime.image
        self._environment = image.environment_of_programs(has_overlay=self._request.overlay is not None)
        self.info = dataclasses.replace(self.info, image=image.reference, created_at=datetime.now(UTC))
        try:
            host = await self.runtime.boots.boot(self._request)
        except (LaunchError, SandboxGoneError, OSError) as error:
            raise InfrastructureError(f"the sandbox did not start: {error}") from error
        sandbox_id = str(uuid.uuid4())
        self.info = dataclasses.replace(self.info, id=sandbox_id, status="running", started_at=datetime.now(UTC))
        host.on_limit = self._note_limit
        if host.passage is not None:
            host.passage.sandbox_id, host.passage.tags = sandbox_id, frozenset(self.info.tags)
        self.runtime.sandboxes[sandbox_id] = self
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(self.info.max_lifetime_seconds, self._expire, host)
        self._watcher = asyncio.ensure_future(self._watch(host))
        return host

    async def settle(self) -> None:
        if self._creation is not None:
            await asyncio.wait([self._creation])

    def _note_limit(self, limit: str) -> None:
        self.info = dataclasses.replace(self.info, reason=f"{limit} limit exceeded")

    def _expire(self, host: HostSandbox) -> None:
        self._end("terminated", "max_lifetime_seconds reached")
        self._killer = asyncio.ensure_future(host.destroy())

    async def _watch(self, host: HostSandbox) -> None:
        await host.ended.wait()
        self._end("failed", await host.unexpected_end(self.info.reason))

    def _end(self, status: str, reason: str) -> None:
        if self.info.has_ended:
            return
        self.info = dataclasses.replace(self.info, status=status, reason=reason, ended_at=datetime.now(UTC))
        if self._expiry is not None:
            self._expiry.cancel()
        self.runtime.note_end(self)

    def run(self, command: Command) -> Future[Result]:
        return self.runtime.submit(self._run(command))

    async def _run(self, command: Command) -> Result:
        collected = {Stream.STDOUT: bytearray(), Stream.STDERR: bytearray()}
        most = math.inf if command.most_output_bytes is None else command.most_output_bytes

        async def take(stream: Stream, block: bytes) -> None:
            collected[stream] += block
            if sum(map(len, collected.values())) > most:
                raise BrokenPipeError

        async def feed(process: GuestProcess) -> None:
            await process.write_stdin(command.input)
            process.close_stdin()

        try:
            code = await self.execute(command.argv, command.timeout_seconds, feed, take)
        except BrokenPipeError:
            return Result(128 + signal.SIGPIPE)
        return Result(None) if code is None else Result(code, *map(bytes, collected.values()))

    async def execute(
        self,
        argv: Sequence[str],
        timeout_seconds: float,
        feed: Callable[[GuestProcess], Awaitable[None]],
        take: Callable[[Stream, bytes], Awaitable[None]],
    ) -> int | None:
        """Runs a program to its end; its exit code, or None if it exceeded its timeout."""
        host = await self._host()
        try:
            number, process = await host.start(argv, self._environment, directory=rootfs.WORKING_DIRECTORY)
        except StartError as error:
            # A command that does not exist ends as it would in a shell: a line on standard error, and 127.
            await take(Stream.STDERR, f"{error}\n".encode())
            return error.code
        except SandboxGoneError as error:
            raise await _failure(host, str(error)) from error
        feeding = asyncio.ensure_future(feed(process))
        try:
            async with asyncio.timeout(timeout_seconds):
                while not isinstance(output := await process.next_output(), Exit):
                    await take(*output)
        except TimeoutError:
            host.kill(number)
            return None
        except BaseException:  # cancelled, or nobody reads what it prints
            host.kill(number)
            raise
        finally:
            feeding.cancel()
        if output.message:
            raise await _failure(host, output.message)
        return output.code

    def attach(
        self, argv: Sequence[str], *, stdin: bool, stdout: Output, stderr: Output, timeout_seconds: float
    ) -> AttachedProgram:
        outputs = {Stream.STDOUT: stdout, Stream.STDERR: stderr}
        return DaemonlessProgram(self, tuple(argv), stdin, outputs, timeout_seconds)

    def open_terminal(
        self, argv: Sequence[str], *, columns: int, rows: int, output: Callable[[bytes], None]
    ) -> AttachedProgram:
        raise UsageError("the daemonless runtime has no terminals", hint="use `runtime` local", fields=("runtime",))

    def read_file(self, path: str) -> Future[bytes]:
        return self.runtime.submit(self._with_file(lambda host: read_file(host, path)))

    def write_file(self, path: str, content: bytes) -> Future[None]:
        return self.runtime.submit(self._with_file(lambda host: write_file(host, path, content)))

    async def _with_file(self, operate: Callable[[HostSandbox], Awaitable[Value]]) -> Value:
        host = await self._host()
        try:
            return await operate(host)
        except FileError as error:
            number = limits.FILE_ERRORS.get(error.reason, errno.EIO)
            raise OSError(number, os.strerror(number), error.path) from error
        except (SandboxGoneError, StartError) as error:
            raise await _failure(host, str(error)) from error

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        # There is no main program, so it has printed nothing.
        return iter(())

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        return self.runtime.submit(self.stop_here(missing_ok=missing_ok))

    async def stop_here(self, *, missing_ok: bool = True) -> None:
        await self.settle()
        if self.id is None and not missing_ok:
            raise UnknownSandboxError("")
        if self.id is None or self._creation is None or self.info.has_ended:
            return
        host = self._creation.result()
        self._end("terminated", "stopped")
        await host.destroy()


async def _failure(host: HostSandbox, message: str) -> InfrastructureError:
    error = InfrastructureError(message)
    error.lost_runtime = await host.is_lost()
    return error


class DaemonlessProgram:
    def __init__(
        self,
        sandbox: DaemonlessSandbox,
        argv: Sequence[str],
        has_input: bool,
        outputs: Mapping[Stream, Output],
        timeout_seconds: float,
    ) -> None:
        self.ended: Future[None] = Future()
        self._sandbox = sandbox
        self._has_input = has_input
        self._outputs = outputs
        self._process: Future[GuestProcess] = Future()
        self._code = sandbox.runtime.submit(self._run(argv, timeout_seconds))
        self._code.add_done_callback(lambda _: self.ended.set_result(None))

    async def _run(self, argv: Sequence[str], timeout_seconds: float) -> int | None:
        try:
            if self._sandbox.info.has_ended:
                raise NotRunningError(self._sandbox.info.id)
            return await self._sandbox.execute(argv, timeout_seconds, self._feed, self._take)
        finally:
            self._process.cancel()

    async def _feed(self, process: GuestProcess) -> None:
        if self._has_input:
            self._process.set_result(process)
        else:
            process.close_stdin()

    async def _take(self, stream: Stream, block: bytes) -> None:
        # Whoever reads it may be slow, and other sandboxes must not wait for that.
        await asyncio.to_thread(self._outputs[stream].write, block)

    def _running(self) -> GuestProcess | None:
        with suppress(CancelledError):
            process = self._process.result()
            if not self._code.done():
                return process
        return None

    def write(self, block: bytes) -> None:
        process = self._running()
        if process is None:
            raise InfrastructureError("the program takes no more input")
        self._sandbox.runtime.submit(process.write_stdin(block)).result()

    def close_input(self) -> None:
        if (process := self._running()) is None:
            return

        async def close() -> None:
            process.close_stdin()

        self._sandbox.runtime.submit(close()).result()

    def cancel(self) -> None:
        self._code.cancel()

    def finish(self) -> int | None:
        try:
            return self._code.result()
        except CancelledError as error:
            raise InfrastructureError("the execution was cancelled") from error
