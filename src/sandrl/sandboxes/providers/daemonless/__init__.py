"""The daemonless runtime: sandboxes below this process, for a container or a batch job in which no daemon may live.

The host part of the local runtime's daemon (launcher, host users, control groups) runs in a thread of this process
(`runtime.py`), without the SDK. There is no port and no token, so no other process can list these
sandboxes, and none outlives the process. The launcher starts with the first connection and ends with the last client.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from sandrl.errors import UnknownImageError, UnknownSandboxError, UsageError
from sandrl.events import Emit, RuntimeStarting, ignore
from sandrl.runtime import limits
from sandrl.runtime.host.images import Image, find_images, host_image, own_image
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.state import RuntimeDirectory
from sandrl.runtime.usage import suggested_concurrency
from sandrl.sandboxes.owner import Liveness, liveness
from sandrl.sandboxes.providers.daemonless.runtime import HostThread
from sandrl.sandboxes.providers.daemonless.sandbox import DaemonlessSandbox
from sandrl.sandboxes.providers.local import overlay_of
from sandrl.sandboxes.providers.protocol import Connection, Need, Packages, Sandbox, SharedDirectory
from sandrl.sandboxes.registry import read_jobs
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.settings import RuntimeKind, Settings


class DaemonlessProvider:
    summary: str = "the command itself runs the sandboxes, without a daemon and without a port"
    needs: frozenset[Need] = frozenset({Need.ISOLATION, Need.FILES})

    def connect(
        self,
        settings: Settings,
        *,
        reason: str,
        image: str | None,
        packages: Packages,
        private_hosts: tuple[str, ...] = (),
        emit: Emit,
    ) -> DaemonlessConnection:
        interpreter = _interpreter(image)
        image = image or interpreter.reference
        overlay = overlay_of(packages, settings, image, emit)
        starting = RuntimeStarting("starting the daemonless runtime")
        runtime = HostThread.running(settings.state_dir, interpreter, lambda: emit(starting))
        return DaemonlessConnection(
            kind=RuntimeKind.DAEMONLESS,
            reason=reason,
            address=f"process {os.getpid()}",
            image=image,
            is_local=True,
            suggested_concurrency=suggested_concurrency(),
            isolation=runtime.choice.launcher.name,
            has_site_packages=bool(overlay),
            packages=packages,
            overlay=overlay,
            memory_bytes=limits.MEMORY_BYTES,
            state_dir=settings.state_dir,
            prebuilt=SharedDirectory(RuntimeDirectory(settings.state_dir).prebuilt, limits.PREBUILT_PATH),
            directory=settings.state_dir,
            interpreter=interpreter,
            connections=runtime.choice.launcher.gate.connections,
            reached=runtime.choice.launcher.gate.reached,
        )

    def find(self, settings: Settings, *, reason: str, emit: Emit = ignore) -> None:
        # A process cannot list the sandboxes of another one.
        pass

    def absence(self, settings: Settings) -> str:
        jobs = [job for job in read_jobs(settings.state_dir) if job.runtime == RuntimeKind.DAEMONLESS]
        alive = [job for job in jobs if liveness(job.process) is Liveness.ALIVE]
        running = "; ".join(f"{job.command} ({job.job_id}, process {job.process.pid})" for job in alive)
        return (
            "Daemonless sandboxes are visible only to the process that created them, and end with it. "
            f"Commands that have such sandboxes now: {running or 'none'}."
        )


def _interpreter(reference: str | None) -> Image:
    try:
        image = host_image(reference or "", [own_image()])
    except UnknownImageError:
        image = None
    try:
        image = image or host_image(reference or "", find_images())
    except UnknownImageError as error:
        raise UsageError(str(error), fields=("image",)) from error
    if image is None:
        message = f"image {reference!r}: the daemonless runtime serves the host's system alone"
        raise UsageError(message, hint="use `runtime` local", fields=("image",))
    return image


PROVIDER = DaemonlessProvider()


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonlessConnection(Connection):
    """The daemonless runtime of this process."""

    directory: Path = field(repr=False)
    interpreter: Image = field(repr=False)

    def open(self, *, tags: Sequence[str] = (), max_lifetime_seconds: float | None = None) -> DaemonlessClient:
        runtime = HostThread.running(self.directory, self.interpreter, is_user=True)
        return DaemonlessClient(runtime, self, tuple(tags), max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS)


class DaemonlessClient:
    def __init__(
        self, runtime: HostThread, connection: DaemonlessConnection, tags: tuple[str, ...], lifetime_seconds: float
    ) -> None:
        self._runtime = runtime
        self._connection = connection
        self._tags = tags
        self._lifetime_seconds = lifetime_seconds

    def create(self, tags: Sequence[str], cells: int = 0, shape: Shape = USUAL) -> Sandbox:
        if not shape.is_usual:
            message = "the daemonless runtime gives no sandbox a shape of its own: no memory, storage, user or network"
            raise UsageError(message, hint="use `runtime` local", fields=("runtime",))
        request = BootRequest(
            self._runtime.image.name,
            overlay=self._connection.overlay or None,
            memory_bytes=self._connection.memory_bytes or limits.MEMORY_BYTES,
            cells=cells,
            network=self._connection.network if self._connection.has_network else None,
        )
        all_tags = tuple(dict.fromkeys((*self._tags, *tags)))
        return DaemonlessSandbox(self._runtime, request, all_tags, self._lifetime_seconds)

    def list(self, tags: Sequence[str], *, ended: bool = False) -> Future[list[Sandbox]]:
        async def found() -> list[Sandbox]:
            await asyncio.gather(*(sandbox.settle() for sandbox in self._runtime.coming))
            known = [*self._runtime.sandboxes.values(), *(self._runtime.ended.values() if ended else ())]
            return [sandbox for sandbox in known if {*tags} <= {*sandbox.info.tags}]

        return self._runtime.submit(found())

    def get(self, sandbox_id: str) -> Future[Sandbox]:
        async def found() -> Sandbox:
            known = self._runtime.sandboxes.get(sandbox_id) or self._runtime.ended.get(sandbox_id)
            if known is None:
                raise UnknownSandboxError(sandbox_id)
            return known

        return self._runtime.submit(found())

    def ping(self) -> Future[None]:
        return self._runtime.submit(asyncio.sleep(0))

    def abandon(self) -> None:
        # This runtime ends only with the process.
        pass

    def close(self, timeout_seconds: float) -> None:
        self._runtime.release(timeout_seconds)
