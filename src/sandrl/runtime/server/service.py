"""`coreweave.sandbox.v1.SandboxService`: each call checked, carried out, and answered as the SDK expects."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import grpc
from cwsandbox._proto import sandbox_pb2 as pb
from cwsandbox._proto import sandbox_pb2_grpc

from sandrl.runtime import limits
from sandrl.runtime.host.files import FileError, read_file, write_file
from sandrl.runtime.host.sandbox import DeprivedError, HostSandbox, SandboxGoneError, StartError
from sandrl.runtime.server import faults
from sandrl.runtime.server.exec_stream import END, serve_exec
from sandrl.runtime.server.records import TERMINAL_STATES, Record
from sandrl.runtime.server.sandboxes import SandboxManager

Context = grpc.aio.ServicerContext[Any, Any]
Answer = TypeVar("Answer")


def as_fault(error: faults.Fault | FileError | SandboxGoneError | StartError) -> faults.Fault:
    if isinstance(error, faults.Fault):
        return error
    if isinstance(error, FileError):
        return faults.of_file(error)
    if isinstance(error, StartError):
        return faults.Fault(grpc.StatusCode.INTERNAL, str(error), reason="CWSANDBOX_FILE_IO_FAILED")
    if isinstance(error, DeprivedError):
        return faults.Fault(grpc.StatusCode.UNAVAILABLE, str(error), reason="CWSANDBOX_RUNNER_UNAVAILABLE")
    return faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, str(error))


def _answering_faults(method: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    @functools.wraps(method)
    async def answer(self: Any, request: Any, context: Context) -> Answer:
        try:
            return await method(self, request, context)
        except (faults.Fault, FileError, SandboxGoneError, StartError) as error:
            await as_fault(error).abort(context)

    return answer


class SandboxService(sandbox_pb2_grpc.SandboxServiceServicer):
    """The calls of the SDK on sandboxes."""

    def __init__(self, manager: SandboxManager) -> None:
        self._manager = manager

    def _proto(self, record: Record) -> pb.Sandbox:
        return record.to_proto(self._manager.runner_id)

    def _running(self, sandbox_id: str, container: str) -> tuple[Record, HostSandbox]:
        record = self._manager.registry.get(sandbox_id)
        if container and container != record.plan.container:
            raise faults.invalid(f"sandbox has no container {container!r}", "container")
        if record.state == pb.STATE_FAILED and record.reason == limits.LOST_REASON:
            raise faults.lost(f"sandbox {sandbox_id!r} is not running: {limits.LOST_REASON}")
        if record.host is None or record.state in TERMINAL_STATES:
            raise faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, f"sandbox {sandbox_id!r} is not running")
        return record, record.host

    @_answering_faults
    async def CreateSandbox(self, request: pb.CreateSandboxRequest, context: Context) -> pb.Sandbox:
        return self._proto(await self._manager.create(request.sandbox.spec, request.request_id))

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
        if request.snapshot_volumes:
            raise faults.unsupported("a file-system snapshot", "CWSANDBOX_FSS_NOT_SUPPORTED")
        try:
            record = self._manager.registry.get(request.sandbox_id)
        except faults.Fault:
            if request.allow_missing:
                return pb.DeleteSandboxResponse()
            raise
        # A client that goes away must not leave half an end behind.
        await asyncio.shield(self._manager.delete(record, request.grace_period_seconds))
        await record.terminal.wait()
        return pb.DeleteSandboxResponse(sandbox=self._proto(record))

    async def StreamExec(self, requests: AsyncIterator[pb.ExecStreamRequest], context: Context) -> None:
        try:
            first = await context.read()
            if first is END or not first.HasField("init"):
                raise faults.invalid("the first message must be `init`", "init")
            record, host = self._running(first.init.sandbox_id, first.init.container)
            try:
                await serve_exec(record, host, first.init, context)
            except SandboxGoneError as error:
                if await host.is_lost():
                    raise faults.lost(str(error)) from error
                raise
        except (faults.Fault, SandboxGoneError) as error:
            await as_fault(error).abort(context)

    async def StreamLogs(self, request: pb.StreamLogsRequest, context: Context) -> None:
        try:
            record = self._manager.registry.get(request.sandbox_id)
        except faults.Fault as fault:
            await fault.abort(context)
        log = record.log
        if request.resume_log_session_id:
            session = log.find_session(request.resume_log_session_id)
            if session is None:
                await context.write(_log_error("SESSION_NOT_FOUND", "no such log session"))
                return
            offset = request.resume_log_offset
            if offset not in session.positions:
                await context.write(_log_error("INVALID_RESUME_OFFSET", f"no frame of the session ended at {offset}"))
                return
            position, at_line_start = session.positions[offset]
        else:
            session = log.open_session(timestamps=request.timestamps)
            since = request.since_time.ToNanoseconds() / 1e9 if request.HasField("since_time") else None
            tail = request.tail_lines if "tail_lines" in {name.name for name, _ in request.ListFields()} else None
            position, offset, at_line_start = log.position_of(tail_lines=tail, since=since), 0, True
            session.remember(0, position, True)
        frames = log.stream(session, position, offset, follow=request.follow, at_line_start=at_line_start)
        async for data, arrived, next_offset in frames:
            entry = pb.LogEntry(data=data, log_session_id=session.session_id, next_log_offset=next_offset)
            entry.timestamp.FromNanoseconds(int(arrived * 1e9))
            await context.write(entry)

    @_answering_faults
    async def ReadFile(self, request: pb.ReadFileRequest, context: Context) -> pb.ReadFileResponse:
        _, host = self._running(request.sandbox_id, request.container)
        return pb.ReadFileResponse(content=await read_file(host, request.path))

    @_answering_faults
    async def WriteFile(self, request: pb.WriteFileRequest, context: Context) -> pb.WriteFileResponse:
        _, host = self._running(request.sandbox_id, request.container)
        await write_file(host, request.path, request.content)
        return pb.WriteFileResponse()

    async def _no_snapshots(self, request: Any, context: Context) -> None:
        await faults.unsupported("file-system snapshots", "CWSANDBOX_FSS_NOT_SUPPORTED").abort(context)

    CreateFileSystemSnapshot = _no_snapshots
    GetFileSystemSnapshot = _no_snapshots
    ListFileSystemSnapshots = _no_snapshots
    DeleteFileSystemSnapshot = _no_snapshots

    async def _one_way_in(self, request: Any, context: Context) -> None:
        fault = faults.Fault(
            grpc.StatusCode.UNIMPLEMENTED,
            "the local runtime serves sandboxes from one container image, through its gateway only",
            reason="CWSANDBOX_NOT_IMPLEMENTED",
        )
        await fault.abort(context)

    CreateSandboxFromTemplate = _one_way_in
    CreateSandboxFromFile = _one_way_in
    ConnectSandbox = _one_way_in


def _log_error(code: str, message: str) -> pb.LogEntry:
    return pb.LogEntry(error=pb.LogStreamError(code=code, message=message))
