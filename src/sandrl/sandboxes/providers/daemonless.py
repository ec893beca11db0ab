"""The daemonless runtime: sandboxes below this very process, for a container or a batch job where no daemon may live.

The design decision: what the daemon of the local runtime does on the host (launcher, host users, control groups) is
done in a thread of this process (`sandrl.runtime.in_process`), without the SDK. There is no port, no token and nothing
that anybody else could ask, so nobody else can list these sandboxes; and none outlives the process. The launcher starts
with the first connection and ends with the last client.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, TypeVar

from sandrl.errors import (
    InfrastructureError,
    NotRunningError,
    UnknownSandboxError,
    UsageError,
)
from sandrl.events import Emit, RuntimeStarting
from sandrl.runtime import limits
from sandrl.runtime.guest import rootfs
from sandrl.runtime.host.files import FileError, read_file, write_file
from sandrl.runtime.host.images import Image, UnknownImageError, choose_image, find_images, own_image, parse_reference
from sandrl.runtime.host.launcher import BootRequest, LaunchError
from sandrl.runtime.host.process import Exit, GuestProcess, Stream
from sandrl.runtime.host.sandbox import HostSandbox, SandboxGoneError, StartError
from sandrl.runtime.in_process import HostThread
from sandrl.runtime.state import RuntimeDirectory
from sandrl.runtime.usage import suggested_concurrency
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.owner import Liveness, liveness
from sandrl.sandboxes.providers.protocol import Attached, Connection, Need, Output, Result, Sandbox, SandboxInfo
from sandrl.sandboxes.registry import read_jobs
from sandrl.settings import RuntimeKind, Settings

Value = TypeVar("Value")

_REMEMBERED_ENDED = 1_000


class DaemonlessProvider:
    """See `Provider`."""

    summary: ClassVar[str] = "the command itself; no background process, no port"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ISOLATION, Need.FILES})

    def connect(
        self, settings: Settings, *, reason: str, image: str | None, packages: Sequence[str], emit: Emit
    ) -> DaemonlessConnection:
        """See `Provider.connect`; starts the launcher if it does not run."""
        interpreter = _interpreter(image)
        image = image or interpreter.reference
        overlay = ""
        if packages:
            from sandrl.runtime.packages import build_overlay

            overlay = build_overlay(packages, settings.state_dir, image=image)
        starting = RuntimeStarting("starting the daemonless runtime")
        runtime = _Runtime.running(settings.state_dir, interpreter, lambda: emit(starting))
        return DaemonlessConnection(
            kind=RuntimeKind.DAEMONLESS,
            reason=reason,
            address=f"process {os.getpid()}",
            image=image,
            is_local=True,
            suggested_concurrency=suggested_concurrency(),
            isolation=runtime.choice.launcher.name,
            has_site_packages=bool(packages),
            overlay=overlay,
            state_dir=settings.state_dir,
            directory=settings.state_dir,
            interpreter=interpreter,
        )

    def find(self, settings: Settings, *, reason: str) -> None:
        """See `Provider.find`: nobody can ask another process for its sandboxes."""

    def absence(self, settings: Settings) -> str:
        """See `Provider.absence`."""
        jobs = [job for job in read_jobs(settings.state_dir) if job.runtime == RuntimeKind.DAEMONLESS]
        alive = [job for job in jobs if liveness(job.process) is Liveness.ALIVE]
        running = "; ".join(f"{job.command} ({job.job_id}, process {job.process.pid})" for job in alive)
        return (
            "Daemonless sandboxes are known only to the process that made them, and end with it. "
            f"Commands that use some now: {running or 'none'}."
        )


def _interpreter(reference: str | None) -> Image:
    """The image that a reference names; this machine is searched only if it is not the one that runs sandrl.

    Raises:
        UsageError: If this machine does not have it.
    """
    own = own_image()
    if reference is None or parse_reference(reference) == own.name:
        return own
    try:
        return choose_image(reference, find_images())
    except UnknownImageError as error:
        raise UsageError(str(error)) from error


PROVIDER = DaemonlessProvider()


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonlessConnection(Connection):
    """The daemonless runtime of this process.

    Attributes:
        directory: The user's state directory.
        interpreter: What the image names on this machine.
    """

    directory: Path = field(repr=False)
    interpreter: Image = field(repr=False)

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> DaemonlessClient:
        """See `Connection.open`."""
        runtime = _Runtime.running(self.directory, self.interpreter, is_user=True)
        return DaemonlessClient(runtime, self, tuple(tags), max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS)


class _Runtime(HostThread):
    """The launcher of this process, and what is known of its sandboxes, which clients share."""

    def __init__(self, directory: RuntimeDirectory, image: Image) -> None:
        self.sandboxes: dict[str, DaemonlessSandbox] = {}
        self.coming: set[DaemonlessSandbox] = set()
        self.ended: OrderedDict[str, DaemonlessSandbox] = OrderedDict()
        super().__init__(directory, image)

    async def end_sandboxes(self) -> None:
        """See `HostThread.end_sandboxes`."""
        await asyncio.gather(*(sandbox.stop_here() for sandbox in [*self.sandboxes.values()]))


class DaemonlessClient:
    """See `Client`."""

    def __init__(
        self, runtime: _Runtime, connection: DaemonlessConnection, tags: tuple[str, ...], lifetime_seconds: float
    ) -> None:
        self.runtime = runtime
        self.overlay = connection.overlay
        self.lifetime_seconds = lifetime_seconds
        self._tags = tags

    def create(self, tags: Sequence[str]) -> Sandbox:
        """See `Client.create`."""
        return DaemonlessSandbox(self, tuple(dict.fromkeys((*self._tags, *tags))))

    async def _list(self, tags: frozenset[str], ended: bool) -> list[Sandbox]:
        await asyncio.gather(*(sandbox.settle() for sandbox in self.runtime.coming))
        found = [*self.runtime.sandboxes.values(), *(self.runtime.ended.values() if ended else ())]
        return [sandbox for sandbox in found if tags <= set(sandbox.info.tags)]

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        """See `Client.list`."""
        return self.runtime.submit(self._list(frozenset(tags), ended))

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        """See `Client.get`."""
        return self.runtime.submit(self._get(sandbox_id))

    async def _get(self, sandbox_id: str) -> Sandbox:
        found = self.runtime.sandboxes.get(sandbox_id) or self.runtime.ended.get(sandbox_id)
        if found is None:
            raise UnknownSandboxError(sandbox_id)
        return found

    def ping(self) -> Future[None]:
        """See `Client.ping`."""
        return self.runtime.submit(asyncio.sleep(0))

    def close(self, timeout_seconds: float) -> None:
        """See `Client.close`."""
        self.runtime.release(timeout_seconds)


class DaemonlessSandbox:
    """See `Sandbox`; everything with a leading underscore runs on the loop."""

    def __init__(self, client: DaemonlessClient, tags: tuple[str, ...]) -> None:
        self._client = client
        self.runtime = client.runtime
        self._creation: asyncio.Task[HostSandbox] | None = None
        self._environment: dict[str, str] = {}
        self._expiry: asyncio.TimerHandle | None = None
        self.info = SandboxInfo(
            id="",
            status="creating",
            tags=tags,
            max_lifetime_seconds=client.lifetime_seconds,
            resources=(("memory", str(limits.MEMORY_BYTES)),),
            runner=f"process {os.getpid()}",
        )

    @property
    def id(self) -> str | None:
        """See `Sandbox.id`."""
        return self.info.id or None

    @property
    def started_at(self) -> datetime | None:
        """See `Sandbox.started_at`."""
        return self.info.started_at

    def start(self) -> Future[None]:
        """See `Sandbox.start`."""
        return self.runtime.submit(self._start())

    async def _start(self) -> None:
        await self._host()

    async def _host(self) -> HostSandbox:
        """The sandbox itself, created by the first who asks, and again if that failed."""
        if self._creation is None or (self._creation.done() and self.id is None):
            self._creation = asyncio.ensure_future(self._create())
            self.runtime.coming.add(self)
            self._creation.add_done_callback(lambda _: self.runtime.coming.discard(self))
        # Whoever gives up waiting does not undo what others wait for.
        return await asyncio.shield(self._creation)

    async def _create(self) -> HostSandbox:
        client = self._client
        image = self.runtime.image
        self._environment = image.environment_of_programs(has_overlay=bool(client.overlay))
        self.info = dataclasses.replace(self.info, image=image.reference, created_at=datetime.now(UTC))
        try:
            host = await self.runtime.boots.boot(BootRequest(image.name, client.overlay or None))
        except (LaunchError, SandboxGoneError, OSError) as error:
            raise InfrastructureError(f"the sandbox did not start: {error}") from error
        sandbox_id = str(uuid.uuid4())
        self.info = dataclasses.replace(self.info, id=sandbox_id, status="running", started_at=datetime.now(UTC))
        host.on_limit = self._note_limit
        self.runtime.sandboxes[sandbox_id] = self
        loop = asyncio.get_running_loop()
        self._expiry = loop.call_later(client.lifetime_seconds, self._expire, host)
        self._watcher = asyncio.ensure_future(self._watch(host))
        return host

    async def settle(self) -> None:
        """Waits until it is no longer being created; on the loop."""
        if self._creation is not None:
            await asyncio.wait([self._creation])

    def _note_limit(self, limit: str) -> None:
        self.info = dataclasses.replace(self.info, reason=f"{limit} limit exceeded")

    def _expire(self, host: HostSandbox) -> None:
        self._end("terminated", "max_lifetime_seconds reached")
        self._killer = asyncio.ensure_future(host.destroy())

    async def _watch(self, host: HostSandbox) -> None:
        await host.ended.wait()
        reason = limits.LOST_REASON if await host.is_lost() else "the sandbox's first process ended unexpectedly"
        self._end("failed", f"{self.info.reason}: {reason}" if self.info.reason else reason)

    def _end(self, status: str, reason: str) -> None:
        """Enters a final state; the first one counts."""
        if self.info.has_ended:
            return
        self.info = dataclasses.replace(self.info, status=status, reason=reason, ended_at=datetime.now(UTC))
        if self._expiry is not None:
            self._expiry.cancel()
        runtime = self.runtime
        runtime.sandboxes.pop(self.info.id, None)
        runtime.ended[self.info.id] = self
        while len(runtime.ended) > _REMEMBERED_ENDED:
            runtime.ended.popitem(last=False)

    def run(self, command: Command) -> Future[Result]:
        """See `Sandbox.run`."""
        return self.runtime.submit(self._run(command))

    async def _run(self, command: Command) -> Result:
        collected: dict[Stream, list[bytes]] = {Stream.STDOUT: [], Stream.STDERR: []}

        async def take(stream: Stream, block: bytes) -> None:
            collected[stream].append(block)

        async def feed(process: GuestProcess) -> None:
            await process.write_stdin(command.stdin)
            process.close_stdin()

        code = await self.execute(command.argv, command.timeout_seconds, feed, take)
        if code is None:
            return Result(None)
        return Result(code, b"".join(collected[Stream.STDOUT]), b"".join(collected[Stream.STDERR]))

    async def execute(
        self,
        argv: Sequence[str],
        timeout_seconds: float,
        feed: Callable[[GuestProcess], Awaitable[None]],
        take: Callable[[Stream, bytes], Awaitable[None]],
    ) -> int | None:
        """Runs a program to its end; its exit code, or None if its time ran out."""
        host = await self._host()
        try:
            number, process = await host.start(argv, self._environment, directory=rootfs.WORKING_DIRECTORY)
        except StartError as error:
            # A command that does not exist ends as it would in a shell: a line on standard error, and 127.
            await take(Stream.STDERR, f"{error}\n".encode())
            return error.code
        except SandboxGoneError as error:
            raise await self._failure(host, str(error)) from error
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
            raise await self._failure(host, output.message)
        return output.code

    @staticmethod
    async def _failure(host: HostSandbox, message: str) -> InfrastructureError:
        error = InfrastructureError(message)
        error.lost_runtime = await host.is_lost()
        return error

    def attach(
        self, argv: Sequence[str], *, stdin: bool, stdout: Output, stderr: Output, timeout_seconds: float
    ) -> Attached:
        """See `Sandbox.attach`."""
        return _AttachedProgram(
            self, tuple(argv), stdin, {Stream.STDOUT: stdout, Stream.STDERR: stderr}, timeout_seconds
        )

    def read_file(self, path: str) -> Future[bytes]:
        """See `Sandbox.read_file`."""
        return self.runtime.submit(self._with_file(lambda host: read_file(host, path)))

    def write_file(self, path: str, content: bytes) -> Future[None]:
        """See `Sandbox.write_file`."""
        return self.runtime.submit(self._with_file(lambda host: write_file(host, path, content)))

    async def _with_file(self, operate: Callable[[HostSandbox], Awaitable[Value]]) -> Value:
        host = await self._host()
        try:
            return await operate(host)
        except FileError as error:
            number = limits.FILE_ERRORS.get(error.reason, errno.EIO)
            raise OSError(number, os.strerror(number), error.path) from error
        except (SandboxGoneError, StartError) as error:
            raise await self._failure(host, str(error)) from error

    def logs(self, *, follow: bool, tail_lines: int | None) -> Iterator[str]:
        """See `Sandbox.logs`: there is no main program, so it has printed nothing."""
        return iter(())

    def stop(self, *, missing_ok: bool = True) -> Future[None]:
        """See `Sandbox.stop`."""
        return self.runtime.submit(self.stop_here(missing_ok=missing_ok))

    async def stop_here(self, *, missing_ok: bool = True) -> None:
        """The same, on the loop."""
        await self.settle()
        if self.id is None and not missing_ok:
            raise UnknownSandboxError("")
        if self.id is None or self._creation is None or self.info.has_ended:
            return
        host = self._creation.result()
        self._end("terminated", "stopped")
        await host.destroy()


class _AttachedProgram:
    """See `Attached`."""

    def __init__(
        self,
        sandbox: DaemonlessSandbox,
        argv: tuple[str, ...],
        has_input: bool,
        outputs: Mapping[Stream, Output],
        timeout_seconds: float,
    ) -> None:
        self.ended: Future[None] = Future()
        self._sandbox = sandbox
        self._argv = argv
        self._has_input = has_input
        self._outputs = outputs
        self._timeout_seconds = timeout_seconds
        self._process: Future[GuestProcess] = Future()
        self._code = sandbox.runtime.submit(self._run())
        self._code.add_done_callback(lambda _: self.ended.set_result(None))

    async def _run(self) -> int | None:
        try:
            if self._sandbox.info.has_ended:
                raise NotRunningError(self._sandbox.info.id)
            return await self._sandbox.execute(self._argv, self._timeout_seconds, self._feed, self._take)
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

    def _started(self) -> GuestProcess:
        with suppress(CancelledError):
            process = self._process.result()
            if not self._code.done():
                return process
        raise InfrastructureError("the program takes no more input")

    def write(self, block: bytes) -> None:
        """See `Attached.write`."""
        process = self._started()
        self._sandbox.runtime.submit(process.write_stdin(block)).result()

    def close_input(self) -> None:
        """See `Attached.close_input`."""
        process = self._started()

        async def close() -> None:
            process.close_stdin()

        self._sandbox.runtime.submit(close()).result()

    def cancel(self) -> None:
        """See `Attached.cancel`."""
        self._code.cancel()

    def finish(self) -> int | None:
        """See `Attached.finish`."""
        try:
            return self._code.result()
        except CancelledError as error:
            raise InfrastructureError("the execution was cancelled") from error
