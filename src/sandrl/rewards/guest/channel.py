"""Messages between the judge and the completion's process."""

# The style is explained in `descriptors.py`.

import _signal  # type: ignore[import-not-found]
import posix

# What a message is.
QUESTION, ANSWER, READY = b"?", b"!", b"r"

if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.descriptors import read_exactly, write_all
    from sandrl.rewards.guest.values import MAX_BYTES

# Of the signals that end a loop, the one that programs use least.
INTERRUPT = _signal.SIGVTALRM


class Channel:
    """Messages over a pair of pipes: four bytes of length, one that says what it is, then the message.

    Args:
        reading: Where the other side's messages come from.
        writing: Where ours go.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing

    def close(self) -> None:
        """Closes this end."""
        posix.close(self.writing)
        posix.close(self.reading)

    def send(self, kind: bytes, data: bytes) -> None:
        """Sends one message of a kind."""
        head = len(data).to_bytes(4, "little") + kind
        # A copy of a large message would take as much memory again.
        if len(data) < 1 << 16:
            write_all(self.writing, head + data)
        else:
            write_all(self.writing, head)
            write_all(self.writing, data)

    def receive(self) -> "tuple[bytes, bytes]":
        """The kind and the bytes of the next message."""
        head = read_exactly(5, self.reading)
        size = int.from_bytes(head[:4], "little")
        if size > MAX_BYTES:
            raise EOFError("a message too long")
        return head[4:], read_exactly(size, self.reading)
