"""One `StreamExec` call: a program started, its output written as the client takes it, its end reported.

The call's own flow control is the backpressure: a chunk is read from the program only after the one before was
accepted. When the call ends early (the client's deadline, a lost connection) the program's whole tree is killed.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.host.process import Exit, GuestProcess, Stream
from sandrl.runtime.host.sandbox import HostSandbox, StartError
from sandrl.runtime.server import faults
from sandrl.runtime.server.records import Record

_DEFAULT_COLUMNS, _DEFAULT_ROWS, _LARGEST_SIDE = 80, 24, (1 << 16) - 1
END = grpc.aio.EOF  # type: ignore[attr-defined] # the stubs do not know it
_STREAMS = {Stream.STDOUT: pb.ExecStreamOutput.STREAM_STDOUT, Stream.STDERR: pb.ExecStreamOutput.STREAM_STDERR}


async def serve_exec(
    record: Record, host: HostSandbox, init: pb.ExecStreamInit, context: grpc.aio.ServicerContext[Any, Any]
) -> None:
    if not init.command:
        raise faults.invalid("the command is empty", "init.command")
    environment = record.plan.environment | dict(init.env)
    terminal = None
    if init.tty:
        columns, rows = init.tty_width or _DEFAULT_COLUMNS, init.tty_height or _DEFAULT_ROWS
        terminal = (min(columns, _LARGEST_SIDE), min(rows, _LARGEST_SIDE))
        environment.setdefault("TERM", "xterm-256color")
    try:
        number, process = await host.start(
            init.command, environment, directory=record.plan.directory, terminal=terminal
        )
    except StartError as error:
        await context.write(_ready())
        await context.write(_output(Stream.STDERR, f"{error}\n".encode()))
        await context.write(_exited(error.code))
        return
    stdin: _Input | None = None
    try:
        await context.write(_ready())
        # A program whose input broke would wait for the rest of it for ever.
        stdin = _Input(process, context, on_broken=functools.partial(host.kill, number))
        while not isinstance(output := await process.next_output(), Exit):
            await context.write(_output(*output))
        if output.message:
            raise faults.lost(output.message) if await host.is_lost() else faults.unavailable(output.message)
        await context.write(_exited(output.code))
    except BaseException:
        # Cancelled, or the connection broke: nobody will see what the program still does.
        host.kill(number)
        raise
    finally:
        if stdin is not None:
            stdin.end()


class _Input:
    _unfinished: ClassVar[set[asyncio.Task[None]]] = set()

    def __init__(
        self, process: GuestProcess, context: grpc.aio.ServicerContext[Any, Any], *, on_broken: Callable[[], None]
    ) -> None:
        self._process = process
        self._context = context
        self._on_broken = on_broken
        self._is_reading = self._is_over = False
        self._task = asyncio.ensure_future(self._pass_on())
        self._unfinished.add(self._task)
        self._task.add_done_callback(self._note_end)

    def end(self) -> None:
        # gRPC (1.80) never frees the buffer of a read that is cancelled, so a read ends with the call.
        self._is_over = True
        if not self._is_reading:
            self._task.cancel()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._unfinished.discard(task)
        if not task.cancelled() and task.exception() is not None and not self._is_over:
            self._on_broken()

    async def _next(self) -> Any:
        self._is_reading = True
        try:
            return await self._context.read()
        finally:
            self._is_reading = False

    async def _pass_on(self) -> None:
        while (request := await self._next()) is not END and not self._is_over:
            if request.HasField("stdin"):
                await self._process.write_stdin(request.stdin)
            elif request.HasField("resize"):
                self._process.resize(request.resize.width, request.resize.height)
            elif request.HasField("close"):
                break
        if not self._process.is_terminal and not self._is_over:
            self._process.close_stdin()


def _ready() -> pb.ExecStreamResponse:
    response = pb.ExecStreamResponse()
    response.ready.ready_time.GetCurrentTime()
    return response


def _output(stream: Stream, data: bytes) -> pb.ExecStreamResponse:
    return pb.ExecStreamResponse(output=pb.ExecStreamOutput(stream=_STREAMS[stream], data=data))


def _exited(code: int) -> pb.ExecStreamResponse:
    response = pb.ExecStreamResponse(exit=pb.ExecStreamExit(exit_code=code))
    response.exit.completed_time.GetCurrentTime()
    return response
