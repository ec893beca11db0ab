"""Messages between the judge and the completion's process."""

# The style is explained in `descriptors.py`.

import _signal  # type: ignore[import-not-found]

if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.descriptors import read_exactly, write_all
    from sandrl.rewards.guest.values import MAX_BYTES

# Of the signals that end a loop, the one that programs use least.
INTERRUPT = _signal.SIGVTALRM


class Channel:
    """Messages over a pair of pipes: four bytes of length, then the message.

    Args:
        reading: Where the other side's messages come from.
        writing: Where ours go.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing

    def send(self, data: bytes) -> None:
        """Sends one message."""
        size = len(data).to_bytes(4, "little")
        # A copy of a large message would take as much memory again.
        if len(data) < 1 << 16:
            write_all(self.writing, size + data)
        else:
            write_all(self.writing, size)
            write_all(self.writing, data)

    def receive(self) -> bytes:
        """The bytes of the next message."""
        size = int.from_bytes(read_exactly(4, self.reading), "little")
        if size > MAX_BYTES + 1:
            raise EOFError("a message too long")
        return read_exactly(size, self.reading)
