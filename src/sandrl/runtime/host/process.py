"""One program running in a sandbox, seen from the daemon: its pipes, its output with backpressure, its end."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import struct
import termios
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

_READ_BYTES = 1 << 16
_LARGEST_SIDE = (1 << 16) - 1
_BUFFERED_BYTES = 1 << 18


class Stream(IntEnum):
    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True)
class Exit:
    """How a program ended.

    Attributes:
        code: Its exit code; 128 plus the signal number if a signal ended it.
        cpu_seconds: User and system time of the program and the children it waited for.
        message: Why it never started, where that is so.
    """

    code: int
    cpu_seconds: float = 0.0
    message: str = ""


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class GuestProcess:
    """A started program. Output is read only as fast as `next_output` is called.

    Args:
        stdin: Write end of its standard input, or the terminal.
        stdout: Read end of its standard output, or the terminal.
        stderr: Read end of its standard error, or None where it is merged or a terminal.
    """

    def __init__(self, stdin: int, stdout: int, stderr: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._stdin: int | None = stdin
        self.is_terminal = stdin == stdout
        self._readers: dict[int, Stream] = {stdout: Stream.STDOUT}
        if stderr is not None:
            self._readers[stderr] = Stream.STDERR
        self._chunks: deque[tuple[Stream, bytes]] = deque()
        self._buffered = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._stdin_waiter: asyncio.Future[None] | None = None
        self._exit: Exit | None = None
        for descriptor in {stdin, *self._readers}:
            os.set_blocking(descriptor, False)
        for descriptor in self._readers:
            self._loop.add_reader(descriptor, self._read, descriptor)

    def _wake(self) -> None:
        if self._waiter is not None:
            _resolve(self._waiter)

    def _read(self, descriptor: int) -> None:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a terminal whose last user is gone reads as an I/O error
        if data:
            self._chunks.append((self._readers[descriptor], data))
            self._buffered += len(data)
            if self._buffered >= _BUFFERED_BYTES and not self._paused:
                self._paused = True
                for reading in self._readers:
                    self._loop.remove_reader(reading)
        else:
            self._close_reader(descriptor)
        self._wake()

    def _close_reader(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        del self._readers[descriptor]
        if descriptor != self._stdin:
            os.close(descriptor)

    def finished(self, end: Exit) -> None:
        """The agent says the program ended: take what it left in its pipes and no more.

        A program it left behind may keep a pipe open, and even fill it, forever.
        """
        for descriptor, stream in list(self._readers.items()):
            pending = array.array("i", [0])
            try:
                fcntl.ioctl(descriptor, termios.FIONREAD, pending)
                left = pending[0]
                while left > 0 and (data := os.read(descriptor, min(left, _READ_BYTES))):
                    self._chunks.append((stream, data))
                    left -= len(data)
            except OSError:
                pass
            self._close_reader(descriptor)
        self.close_stdin()
        self._exit = end
        self._wake()

    async def next_output(self) -> tuple[Stream, bytes] | Exit:
        """The next chunk of output, or how the program ended once all of it was handed out."""
        while True:
            if self._chunks:
                stream, data = self._chunks.popleft()
                self._buffered -= len(data)
                if self._paused and self._buffered < _BUFFERED_BYTES // 2:
                    self._paused = False
                    for descriptor in self._readers:
                        self._loop.add_reader(descriptor, self._read, descriptor)
                return stream, data
            if self._exit is not None:
                return self._exit
            self._waiter = self._loop.create_future()
            await self._waiter

    async def write_stdin(self, data: bytes) -> None:
        """Write all of `data`, waiting while the program does not read; nothing once it closed its input."""
        view = memoryview(data)
        while view and self._stdin is not None:
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                await self._writable(self._stdin)
            except OSError:
                self.close_stdin()

    async def _writable(self, descriptor: int) -> None:
        waiter = self._stdin_waiter = self._loop.create_future()
        self._loop.add_writer(descriptor, _resolve, waiter)
        try:
            await waiter
        finally:
            if self._stdin == descriptor:  # else it is closed, and its number may be another's by now
                self._loop.remove_writer(descriptor)

    def close_stdin(self) -> None:
        """Give the program end of file, or, where it has already ended, let go of its terminal."""
        if self._stdin is None:
            return
        descriptor, self._stdin = self._stdin, None
        self._loop.remove_writer(descriptor)
        if self._stdin_waiter is not None:
            _resolve(self._stdin_waiter)
        if descriptor not in self._readers:
            os.close(descriptor)

    def resize(self, columns: int, rows: int) -> None:
        if self.is_terminal and self._stdin is not None:
            size = struct.pack("HHHH", min(rows, _LARGEST_SIDE), min(columns, _LARGEST_SIDE), 0, 0)
            fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, size)
