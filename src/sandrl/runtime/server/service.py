"""The services of `coreweave.sandbox.v1`: each call checked, carried out, and answered as the SDK expects."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import platform
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import grpc
from cwsandbox._proto import discovery_pb2, discovery_pb2_grpc, sandbox_pb2_grpc
from cwsandbox._proto import sandbox_pb2 as pb
from google.protobuf.message import Message

from sandrl.runtime import limits
from sandrl.runtime.host.files import FileError, read_file, write_file
from sandrl.runtime.host.sandbox import DeprivedError, HostSandbox, SandboxGoneError, StartError
from sandrl.runtime.server import faults, fields
from sandrl.runtime.server.exec_stream import END, serve_exec
from sandrl.runtime.server.records import TERMINAL_STATES, Record
from sandrl.runtime.server.sandboxes import SandboxManager
from sandrl.runtime.server.steps import run_step

Context = grpc.aio.ServicerContext[Any, Any]
Answer = TypeVar("Answer")

ORGANIZATION_ID = "local"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def _answering_faults(method: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    @functools.wraps(method)
    async def answer(self: Any, request: Any, context: Context) -> Answer:
        try:
            if isinstance(request, Message):  # and not a stream of them, whose fields are all served
                fields.check(request)
            return await method(self, request, context)
        except faults.Fault as error:
            fault = error
        except FileError as error:
            fault = faults.of_file(error)
        except StartError as error:
            fault = faults.Fault(grpc.StatusCode.INTERNAL, str(error), reason="CWSANDBOX_FILE_IO_FAILED")
        except DeprivedError as error:
            fault = faults.unavailable(str(error))
        except SandboxGoneError as error:
            fault = faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, str(error))
        return await fault.abort(context)

    return answer


class SandboxService(sandbox_pb2_grpc.SandboxServiceServicer):
    """The calls of the SDK on sandboxes."""

    def __init__(self, manager: SandboxManager) -> None:
        self._manager = manager

    def _proto(self, record: Record) -> pb.Sandbox:
        return record.to_proto(self._manager.runner_id)

    def _record(self, sandbox_id: str, container: str) -> Record:
        record = self._manager.registry.get(sandbox_id)
        if container and container != record.plan.container:
            raise faults.invalid(f"sandbox has no container {container!r}", "container")
        return record

    def running(self, sandbox_id: str, container: str) -> tuple[Record, HostSandbox]:
        """A sandbox that runs.

        Raises:
            faults.Fault: If it does not, or has no such container.
        """
        record = self._record(sandbox_id, container)
        if record.state == pb.STATE_FAILED and record.reason == limits.LOST_REASON:
            raise faults.lost(f"sandbox {sandbox_id!r} is not running: {limits.LOST_REASON}")
        if record.host is None or record.state in TERMINAL_STATES:
            raise faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, f"sandbox {sandbox_id!r} is not running")
        return record, record.host

    @_answering_faults
    async def CreateSandbox(self, request: pb.CreateSandboxRequest, context: Context) -> pb.Sandbox:
        sandbox = request.sandbox
        return self._proto(await self._manager.create(sandbox.spec, request.request_id, sandbox.display_name))

    @_answering_faults
    async def GetSandbox(self, request: pb.GetSandboxRequest, context: Context) -> pb.Sandbox:
        return self._proto(self._manager.registry.get(request.sandbox_id))

    @_answering_faults
    async def ListSandboxes(self, request: pb.ListSandboxesRequest, context: Context) -> pb.ListSandboxesResponse:
        await self._manager.settle()
        records, token = self._manager.registry.list(request, self._manager.runner_id)
        return pb.ListSandboxesResponse(sandboxes=[self._proto(record) for record in records], next_page_token=token)

    @_answering_faults
    async def DeleteSandbox(self, request: pb.DeleteSandboxRequest, context: Context) -> pb.DeleteSandboxResponse:
        if request.allow_missing and not self._manager.registry.knows(request.sandbox_id):
            return pb.DeleteSandboxResponse()
        taken = []
        for name in request.snapshot_volumes:
            record, host = self.running(request.sandbox_id, "")
            wanted = name, request.request_id, pb.SNAPSHOT_TRIGGER_ON_DELETE
            taken.append((await self._manager.snapshots.create(record, host, *wanted)).file_system_snapshot_id)
        record = self._manager.registry.get(request.sandbox_id)
        # A client that goes away must not leave half an end behind.
        await asyncio.shield(self._manager.delete(record, request.grace_period_seconds))
        await record.terminal.wait()
        return pb.DeleteSandboxResponse(sandbox=self._proto(record), file_system_snapshot_ids=taken)

    @_answering_faults
    async def StreamExec(self, requests: AsyncIterator[pb.ExecStreamRequest], context: Context) -> None:
        first = await context.read()
        if first is END or not first.HasField("init"):
            raise faults.invalid("the first message must be `init`", "init")
        record, host = self.running(first.init.sandbox_id, first.init.container)
        try:
            await serve_exec(record, host, first.init, context)
        except SandboxGoneError as error:
            if await host.is_lost():
                raise faults.lost(str(error)) from error
            raise

    @_answering_faults
    async def StreamLogs(self, request: pb.StreamLogsRequest, context: Context) -> None:
        log = self._record(request.sandbox_id, request.container).log
        if request.resume_log_session_id:
            session, offset = log.find_session(request.resume_log_session_id), request.resume_log_offset
            if session is None:
                await context.write(_log_error("SESSION_NOT_FOUND", "no such log session"))
                return
            if offset not in session.positions:
                await context.write(_log_error("INVALID_RESUME_OFFSET", f"no frame of the session ended at {offset}"))
                return
        else:
            since = request.since_time.ToNanoseconds() / 1e9 if request.HasField("since_time") else None
            tail = request.tail_lines if "tail_lines" in {name.name for name, _ in request.ListFields()} else None
            session, offset = log.open_session(timestamps=request.timestamps, tail_lines=tail, since=since), 0
        async for data, arrived, next_offset in log.stream(session, offset, follow=request.follow):
            entry = pb.LogEntry(data=data, log_session_id=session.session_id, next_log_offset=next_offset)
            entry.timestamp.FromNanoseconds(int(arrived * 1e9))
            await context.write(entry)

    @_answering_faults
    async def ReadFile(self, request: pb.ReadFileRequest, context: Context) -> pb.ReadFileResponse:
        _, host = self.running(request.sandbox_id, request.container)
        return pb.ReadFileResponse(content=await read_file(host, request.path))

    @_answering_faults
    async def WriteFile(self, request: pb.WriteFileRequest, context: Context) -> pb.WriteFileResponse:
        _, host = self.running(request.sandbox_id, request.container)
        await write_file(host, request.path, request.content)
        return pb.WriteFileResponse()

    @_answering_faults
    async def CreateFileSystemSnapshot(
        self, request: pb.CreateFileSystemSnapshotRequest, context: Context
    ) -> pb.FileSystemSnapshot:
        record, host = self.running(request.sandbox_id, "")
        wanted = request.scratch_volume_name, request.request_id, pb.SNAPSHOT_TRIGGER_MANUAL
        return await self._manager.snapshots.create(record, host, *wanted)

    @_answering_faults
    async def GetFileSystemSnapshot(
        self, request: pb.GetFileSystemSnapshotRequest, context: Context
    ) -> pb.FileSystemSnapshot:
        return self._manager.snapshots.get(request.file_system_snapshot_id)

    @_answering_faults
    async def ListFileSystemSnapshots(
        self, request: pb.ListFileSystemSnapshotsRequest, context: Context
    ) -> pb.ListFileSystemSnapshotsResponse:
        return self._manager.snapshots.list(request)

    @_answering_faults
    async def DeleteFileSystemSnapshot(
        self, request: pb.DeleteFileSystemSnapshotRequest, context: Context
    ) -> pb.FileSystemSnapshot:
        try:
            return self._manager.snapshots.delete(request.file_system_snapshot_id)
        except faults.Fault:
            if not request.allow_missing:
                raise
            return pb.FileSystemSnapshot(file_system_snapshot_id=request.file_system_snapshot_id)


class ControlService:
    """The calls of sandrl that the SDK does not have; requests and answers are JSON."""

    def __init__(self, manager: SandboxManager, sandboxes: SandboxService) -> None:
        self._manager = manager
        self._sandboxes = sandboxes

    async def connections(self, request: bytes, _context: Context) -> bytes:
        wanted = json.loads(request)
        found, last = self._manager.gate.connections(wanted["tags"], int(wanted["after"]))
        return json.dumps([found, last]).encode()

    async def reached(self, request: bytes, _context: Context) -> bytes:
        wanted = json.loads(request)
        return json.dumps(self._manager.gate.reached(str(wanted["sandbox_id"]), int(wanted["after"]))).encode()

    @_answering_faults
    async def save(self, request: bytes, _context: Context) -> bytes:
        wanted = json.loads(request)
        record, host = self._sandboxes.running(str(wanted["sandbox_id"]), "")
        image = await self._manager.save(record, host, str(wanted["name"]))
        return json.dumps({"digest": image.digest, "size": image.size, "layers": len(image.layers)}).encode()

    @_answering_faults
    async def changes(self, request: bytes, _context: Context) -> bytes:
        wanted = json.loads(request)
        record, host = self._sandboxes.running(str(wanted["sandbox_id"]), "")
        reason = await self._manager.write_changes(record, host, Path(wanted["path"]), int(wanted["most_bytes"]))
        return reason.encode()

    @_answering_faults
    async def step(self, request: bytes, context: Context) -> None:
        await run_step(self._manager, json.loads(request), context.write)


def _refusing(call: str) -> Callable[..., Awaitable[Any]]:
    async def refuse(self: Any, request: Any, context: Context) -> Any:
        return await fields.refused_call(call).abort(context)

    return refuse


for _call in fields.REFUSED_CALLS:
    setattr(SandboxService, _call, _refusing(_call))


def _log_error(code: str, message: str) -> pb.LogEntry:
    return pb.LogEntry(error=pb.LogStreamError(code=code, message=message))


class DiscoveryService(discovery_pb2_grpc.DiscoveryServiceServicer):
    """Answers which runners there are: one, which is this machine."""

    def __init__(self, manager: SandboxManager) -> None:
        self._manager = manager
        self._since = time.time()

    def _runner(self, view: discovery_pb2.RunnerView) -> discovery_pb2.AvailableRunner:
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        processors = len(os.sched_getaffinity(0))
        page_bytes = os.sysconf("SC_PAGE_SIZE")
        runner = discovery_pb2.AvailableRunner(
            runner_id=self._manager.runner_id,
            runner_group_id="local",
            organization_id=ORGANIZATION_ID,
            tags=["local"],
            healthy=True,
            capabilities=discovery_pb2.RunnerCapabilitySummary(
                max_cpu_millicores=processors * 1000,
                max_memory_bytes=os.sysconf("SC_PHYS_PAGES") * page_bytes,
                supported_architectures=[architecture],
                supported_service_visibilities=[pb.VISIBILITY_PRIVATE],
            ),
        )
        runner.connected_at.FromNanoseconds(int(self._since * 1e9))
        if view == discovery_pb2.RUNNER_VIEW_FULL:
            runner.resources.available_cpu_millicores = processors * 1000
            runner.resources.available_memory_bytes = os.sysconf("SC_AVPHYS_PAGES") * page_bytes
            runner.resources.running_sandboxes = len(self._manager.registry.living())
        return runner

    async def ListAvailableRunners(
        self, request: discovery_pb2.ListAvailableRunnersRequest, context: Context
    ) -> discovery_pb2.ListAvailableRunnersResponse:
        runner = self._runner(request.view)
        visibilities = (pb.VISIBILITY_UNSPECIFIED, pb.VISIBILITY_PRIVATE)
        wanted = (
            request.runner_group_id in ("", runner.runner_group_id)
            and not request.gpu_type
            and request.architecture in ("", *runner.capabilities.supported_architectures)
            and request.service_visibility in visibilities
        )
        return discovery_pb2.ListAvailableRunnersResponse(runners=[runner] if wanted else [])

    @_answering_faults
    async def GetAvailableRunner(
        self, request: discovery_pb2.GetAvailableRunnerRequest, context: Context
    ) -> discovery_pb2.AvailableRunner:
        if request.runner_id != self._manager.runner_id or request.organization_id != ORGANIZATION_ID:
            message = f"runner {request.runner_id!r} not found"
            raise faults.Fault(grpc.StatusCode.NOT_FOUND, message, reason="CWSANDBOX_RUNNER_NOT_FOUND")
        return self._runner(request.view)
