"""Messages between the judge and the completion's process."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix

from sandrl.judge.guest.descriptors import write_all
from sandrl.judge.guest.values import MAX_BYTES

# What a message is.
QUESTION, ANSWER, READY, DONE = b"?", b"!", b"r", b"d"
# Of the signals that end a loop, the one that programs use least.
INTERRUPT = _signal.SIGVTALRM


_HEAD_BYTES = 5
_BLOCK_BYTES = 1 << 20


class Channel:
    """Messages over a pair of pipes: four bytes of length, one that says what it is, then the message.

    `arriving` are the blocks that have come of the message that is waited for, those of its head and those of the rest;
    None when no message is waited for. A deadline may interrupt any step of reading it, and loses none of it.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing
        self.arriving: tuple[list[bytes], list[bytes]] | None = None

    def close(self) -> None:
        posix.close(self.writing)
        posix.close(self.reading)

    def send(self, kind: bytes, data: bytes) -> None:
        head = len(data).to_bytes(4, "little") + kind
        # A copy of a large message would take as much memory again.
        if len(data) < 1 << 16:
            write_all(self.writing, head + data)
        else:
            write_all(self.writing, head)
            write_all(self.writing, data)

    def expect(self) -> None:
        self.arriving = [], []

    def receive(self) -> tuple[bytes, bytes]:
        """The kind and the bytes of the message that is waited for, which stays there until it is taken."""
        if self.arriving is None:
            self.arriving = [], []
        first, rest = self.arriving
        head = self.read_into(first, _HEAD_BYTES)
        size = int.from_bytes(head[:4], "little")
        if size > MAX_BYTES:
            raise EOFError("a message too long")
        return head[4:], self.read_into(rest, size)

    def take(self) -> None:
        """Ends the wait for the message that came: the next one that is received is another."""
        self.arriving = None

    def read_into(self, blocks: list[bytes], size: int) -> bytes:
        missing = size - sum(map(len, blocks))
        while missing:
            # In one step of the interpreter: an exception raised by a signal cannot come between reading and keeping.
            blocks.extend(map(posix.read, (self.reading,), (min(missing, _BLOCK_BYTES),)))
            if not blocks[-1]:
                raise EOFError("the other side ended early")
            missing -= len(blocks[-1])
        if len(blocks) > 1:
            blocks[:] = [b"".join(blocks)]
        return blocks[0] if blocks else b""
