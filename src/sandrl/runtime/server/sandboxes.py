"""Creating and ending sandboxes: connects the calls of the protocol with the processes of the host.

A create answers only once the sandbox runs, and a delete only once it has ended, so that the SDK never has to poll.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import signal
import tempfile
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.errors import SandrlError
from sandrl.runtime.host.boots import Boots
from sandrl.runtime.host.choice import Choice
from sandrl.runtime.host.files import FileError, archive_layer, write_file
from sandrl.runtime.host.images import Image, Images, StoreImage
from sandrl.runtime.host.launcher import LaunchError, RefusedLaunchError
from sandrl.runtime.host.process import Exit, GuestProcess
from sandrl.runtime.host.sandbox import HostSandbox, SandboxGoneError, StartError
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.store import StoredImage
from sandrl.runtime.server import faults
from sandrl.runtime.server.plan import container_of, digest, make_plan
from sandrl.runtime.server.records import TERMINAL_STATES, Record, Registry
from sandrl.runtime.server.snapshots import Snapshots

_MEMBER_BYTES = 4096
logger = logging.getLogger(__name__)

_REMEMBERED_REQUESTS = 4_096
# A boot takes a fraction of a second; a listing must be answered even if one hangs.
_LONGEST_SETTLING_SECONDS = 5.0
# Programs run for seconds; the next place is free soon.
_RETRY_WHEN_FULL_SECONDS = 0.5


class SandboxManager:
    """Owns every sandbox of the daemon."""

    def __init__(
        self,
        choice: Choice,
        images: Images,
        runner_id: str,
        overlays: Path,
        snapshots: Path,
        max_sandboxes: int | None = None,
        storage_bytes: int = 0,
    ) -> None:
        self._storage_bytes = storage_bytes
        self._copies_images = choice.launcher.copies_images
        self._max_sandboxes = max_sandboxes
        self._starting = 0
        self._overlays = overlays
        self.snapshots = Snapshots(snapshots)
        self.registry = Registry()
        self.runner_id = runner_id
        self._images = images
        self._boots = Boots(choice)
        self.gate = choice.launcher.gate
        self._limits_processors = choice.groups is not None and choice.groups.limits_processors
        self._creations: OrderedDict[str, tuple[bytes, asyncio.Future[Record]]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    async def create(self, spec: pb.SandboxSpec, request_id: str, display_name: str = "") -> Record:
        """Start a sandbox, or return the one this request started before.

        Raises:
            faults.Fault: If the spec cannot be served, the sandbox cannot be started, or the request id was used
                for another spec.
        """
        if not request_id:
            return await self._create(spec, display_name)
        declared = digest(spec, display_name)
        known = self._creations.get(request_id)
        if known is not None:
            if known[0] != declared:
                raise faults.Fault(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"request id {request_id!r} was used for a different sandbox",
                    reason="CWSANDBOX_REQUEST_ID_CONFLICT",
                )
            return await asyncio.shield(known[1])
        creation = asyncio.ensure_future(self._create(spec, display_name))
        self._creations[request_id] = (declared, creation)
        creation.add_done_callback(lambda done: self._note_created(request_id, done))
        if len(self._creations) > _REMEMBERED_REQUESTS:
            self._creations.popitem(last=False)
        # A client that gave up may ask again under the same id, and must find what it started.
        return await asyncio.shield(creation)

    async def settle(self) -> None:
        """Waits for the creations that are under way, which nobody can find yet.

        Whoever gave up a creation and then lists what there is, to end it, must not be told that there is nothing.
        """
        under_way = [creation for _, creation in self._creations.values() if not creation.done()]
        if under_way:
            await asyncio.wait(under_way, timeout=_LONGEST_SETTLING_SECONDS)

    def _note_created(self, request_id: str, done: asyncio.Future[Record]) -> None:
        known = self._creations.pop(request_id, None)
        if known is not None and not done.cancelled() and done.exception() is None:
            # Not the task, which would keep the call alive that it was made for.
            created: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
            created.set_result(done.result())
            self._creations[request_id] = (known[0], created)

    async def _create(self, spec: pb.SandboxSpec, display_name: str) -> Record:
        most = self._max_sandboxes
        if most is not None and len(self.registry.living()) + self._starting >= most:
            raise faults.Fault(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"the local runtime holds {most} sandboxes, as many as it may",
                reason="CWSANDBOX_RUNNER_CAPACITY_EXHAUSTED",
                retry_seconds=_RETRY_WHEN_FULL_SECONDS,
            )
        self._starting += 1
        try:
            return await self._start(spec, display_name)
        finally:
            self._starting -= 1

    async def _start(self, spec: pb.SandboxSpec, display_name: str) -> Record:
        if spec.runner_ids and self.runner_id not in spec.runner_ids:
            raise faults.unsupported(f"a runner {spec.runner_ids[0]!r} (sandbox.spec.runner_ids)")
        try:
            image = await self._images.take(container_of(spec).image)
        except SandrlError as error:
            raise faults.invalid(str(error), "sandbox.spec.containers[0].image") from error
        try:
            return await self._start_from(image, spec, display_name)
        except BaseException:
            self._images.give_back(image)
            raise

    async def start_step(
        self, spec: pb.SandboxSpec, change: Callable[[StoreImage], StoreImage], limits: Mapping[str, int]
    ) -> Record:
        """Start the sandbox of a step of a build, with what an image says changed, and other limits of its boot.

        Raises:
            faults.Fault: As `create`.
        """
        image = await self._images.take(container_of(spec).image)
        try:
            if not isinstance(image, StoreImage):
                raise faults.invalid("a step needs an image of the store", "image")
            return await self._start_from(change(image), spec, "", limits)
        except BaseException:
            self._images.give_back(image)
            raise

    async def _start_from(
        self,
        image: Image | StoreImage,
        spec: pb.SandboxSpec,
        display_name: str,
        limits: Mapping[str, int] = MappingProxyType({}),
    ) -> Record:
        plan = make_plan(spec, image, self._storage_bytes)
        plan = dataclasses.replace(plan, boot=dataclasses.replace(plan.boot, **limits))  # type: ignore[arg-type]
        if not self._limits_processors:
            plan = dataclasses.replace(plan, boot=dataclasses.replace(plan.boot, processors=None))
        if plan.boot.overlay is not None and not (self._overlays / plan.boot.overlay).is_dir():
            raise faults.invalid(f"there is no package overlay {plan.boot.overlay!r}", "sandbox.spec.annotations")
        for name, _ in plan.restores:
            self.snapshots.get(name)
        for file in spec.containers[0].files:
            file.ClearField("content")  # the plan has it; a record is kept for long
        kept = pb.SandboxSpec()
        kept.CopyFrom(spec)
        kept.containers[0].image = image.reference  # what it is, also where the SDK named it
        record = Record(str(uuid.uuid4()), kept, plan, display_name=display_name, image=image)
        host = await self._boot(record)
        # Known only from here on: until a create has answered, there is nothing to find or to end.
        self.registry.add(record)
        record.started = time.time()
        if record.state not in TERMINAL_STATES:
            record.host = host
            record.state = pb.STATE_RUNNING
            host.on_limit = record.note_limit
            if host.passage is not None:
                host.passage.sandbox_id, host.passage.tags = record.sandbox_id, frozenset(spec.tags)
            ending = self.delete, record, 0.0, "max_lifetime_seconds reached"
            record.lifetime = asyncio.get_running_loop().call_later(plan.lifetime_seconds, self._spawn, *ending)
        self._spawn(self._watch, record, host, image)
        return record

    async def _boot(self, record: Record) -> HostSandbox:
        try:
            return await self._boots.boot(record.plan.boot, functools.partial(self._prepare, record))
        except FileError as error:
            raise faults.of_file(error) from error
        except RefusedLaunchError as error:
            place = "sandbox.spec" if error.field == "network" else "sandbox.spec.containers[0]"
            raise faults.invalid(str(error), f"{place}.{error.field}") from error
        except (LaunchError, SandboxGoneError) as error:
            logger.error("sandbox did not start: %s", error)
            raise faults.unavailable(f"the sandbox did not start: {error}") from error

    async def _prepare(self, record: Record, host: HostSandbox) -> None:
        for name, path in record.plan.restores:
            await self.snapshots.restore(host, name, path)
        for path, content in record.plan.files:
            await write_file(host, path, content)
        await self._start_main(record, host)
        await self._probe(record, host)

    async def _watch(self, record: Record, host: HostSandbox, image: Image | StoreImage) -> None:
        await host.ended.wait()
        self._images.give_back(image)
        if record.state not in (pb.STATE_TERMINATING, *TERMINAL_STATES):
            reason = await host.unexpected_end(record.reason)
            if record.state != pb.STATE_TERMINATING:
                record.finish(pb.STATE_FAILED, reason)
        await record.terminal.wait()
        self.registry.retire(record)

    def _spawn(self, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        task = asyncio.ensure_future(work(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_main(self, record: Record, host: HostSandbox) -> None:
        plan = record.plan
        if plan.main is None:
            return
        try:
            record.main_exec, process = await host.start(
                plan.main, plan.environment, directory=plan.directory, merge_output=True
            )
        except StartError as error:
            await host.destroy()
            record.finish(pb.STATE_FAILED, str(error), error.code)
            return
        process.close_stdin()
        self._spawn(self._follow_main, record, host, process)

    async def _probe(self, record: Record, host: HostSandbox) -> None:
        plan = record.plan
        if plan.probe is None:
            return
        try:
            failure = await plan.probe.wait(host, plan.environment, plan.directory)
        except SandboxGoneError:
            if record.state not in TERMINAL_STATES:  # its main program has ended
                raise
            return
        if failure is not None:
            await host.destroy()
            record.finish(pb.STATE_FAILED, f"the startup probe failed: {failure}")

    async def _follow_main(self, record: Record, host: HostSandbox, process: GuestProcess) -> None:
        while not isinstance(output := await process.next_output(), Exit):
            record.log.append(output[1])
        record.main_exec = None
        if host.alive and record.state != pb.STATE_TERMINATING:
            record.finish(pb.STATE_COMPLETED, exit_code=output.code)
        await host.destroy()

    async def delete(self, record: Record, grace_seconds: float, reason: str = "stopped") -> None:
        """End a sandbox and return once it is gone; its main program gets SIGTERM and `grace_seconds` first."""
        host = record.host
        if host is None or record.state in TERMINAL_STATES:
            return
        record.state = pb.STATE_TERMINATING
        if record.main_exec is not None and grace_seconds > 0:
            host.signal(record.main_exec, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(host.ended.wait()), grace_seconds)
        await host.destroy()
        record.finish(pb.STATE_TERMINATED, reason)

    async def save(
        self,
        record: Record,
        host: HostSandbox,
        name: str | None,
        described: str = "",
        left_out: Sequence[str] = (),
    ) -> StoredImage:
        """Store what a sandbox has changed in its image as an image of that name, while its programs run.

        The image has nothing of the paths `left_out`.

        Raises:
            faults.Fault: If it has no image, or the image cannot be stored.
        """
        image = record.image
        if not isinstance(image, StoreImage):
            raise faults.unsupported("a snapshot of the host's system: a sandbox from an image is needed")
        if self._copies_images:
            raise faults.unsupported("a snapshot where the kernel has no overlays: changes are not known apart")
        try:
            if name is not None:
                parse_reference(name)
        except SandrlError as error:
            raise faults.invalid(str(error), "name") from error
        # Files that have no content take room in an archive, too.
        most = (
            2 * (record.plan.boot.storage_bytes or record.plan.boot.disk_bytes)
            + record.plan.boot.inodes * _MEMBER_BYTES
        )
        with tempfile.NamedTemporaryFile(dir=self._images.scratch(), suffix=".tar") as file:
            try:
                await archive_layer(host, lambda data: _write_within(file, data, most), left_out)
                file.flush()
                described = described or f"snapshot of sandbox {record.sandbox_id}"
                return await self._images.derive(image, Path(file.name), name, described)
            except (FileError, SandrlError) as error:
                raise faults.invalid(f"the snapshot cannot be stored: {error}", "name") from error

    async def write_changes(self, record: Record, host: HostSandbox, path: Path, most_bytes: int) -> str:
        """Write what a sandbox has changed in its image to a new file; returns why that cannot be, if it cannot.

        Raises:
            faults.Fault: If the file cannot be written.
        """
        if not isinstance(record.image, StoreImage) or self._copies_images:
            raise faults.unsupported("the state of a sandbox whose changes are not known apart")
        try:
            with path.open("xb") as file:
                await archive_layer(host, lambda data: _write_within(file, data, most_bytes))
        except FileError as error:
            if not host.alive:
                raise faults.lost(str(error)) from error
            return str(error)
        except OSError as error:
            message = f"{path}: cannot be written: {error.strerror}"
            raise faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, message) from error
        return ""

    async def close(self) -> None:
        for record in self.registry.living():
            record.finish(pb.STATE_TERMINATED, "the runtime stopped")
        await self._boots.close()


def _write_within(file: IO[bytes], data: bytes, most: int) -> None:
    if file.tell() + len(data) > most:
        raise FileError("/", "CWSANDBOX_FSS_SIZE_EXCEEDED", f"it is larger than {most >> 20} MiB: remove sparse files")
    file.write(data)
