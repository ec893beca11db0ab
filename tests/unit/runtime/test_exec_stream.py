"""The input of a program that a client started."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.server.exec_stream import END, _Input


class Call:
    """A call whose messages a test sends; a read that is cancelled is noted."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.cancelled_reads = 0

    async def read(self) -> Any:
        try:
            return await self.messages.get()
        except asyncio.CancelledError:
            self.cancelled_reads += 1
            raise


class Program:
    """A program that keeps its input, or refuses it."""

    is_terminal = False

    def __init__(self, *, breaks: bool = False) -> None:
        self.input = b""
        self.is_closed = False
        self._breaks = breaks

    async def write_stdin(self, data: bytes) -> None:
        if self._breaks:
            raise BrokenPipeError
        self.input += data

    def close_stdin(self) -> None:
        self.is_closed = True


def started(program: Program, call: Call) -> tuple[_Input, list[str]]:
    broken: list[str] = []
    return _Input(cast("Any", program), cast("Any", call), on_broken=lambda: broken.append("broken")), broken


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_input_reaches_the_program_until_the_client_ends_its_side() -> None:
    program, call = Program(), Call()
    _, broken = started(program, call)
    for message in (pb.ExecStreamRequest(stdin=b"a"), pb.ExecStreamRequest(stdin=b"b"), END):
        call.messages.put_nowait(message)
    await settled()
    assert (program.input, program.is_closed, broken) == (b"ab", True, [])


async def test_a_read_under_way_is_not_cancelled_when_the_program_ends() -> None:
    program, call = Program(), Call()
    stdin, broken = started(program, call)
    await settled()
    stdin.end()
    await settled()
    assert call.cancelled_reads == 0
    call.messages.put_nowait(pb.ExecStreamRequest(stdin=b"late"))
    await settled()
    assert (program.input, program.is_closed, broken) == (b"", False, [])


async def test_input_that_breaks_is_told_once() -> None:
    program, call = Program(breaks=True), Call()
    _, broken = started(program, call)
    call.messages.put_nowait(pb.ExecStreamRequest(stdin=b"a"))
    await settled()
    assert broken == ["broken"]
