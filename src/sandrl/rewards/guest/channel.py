"""Messages between the judge and the completion's process, and what they can ask for."""

# The style is explained in `descriptors.py`.

import _signal  # type: ignore[import-not-found]

if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.descriptors import read_exactly, write_all
    from sandrl.rewards.guest.values import MAX_BYTES, Unsendable

# Of the signals that end a loop, the one that programs use least.
INTERRUPT = _signal.SIGVTALRM
BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class Channel:
    """Messages over a pair of pipes: four bytes of length, then a value.

    Args:
        reading: Where the other side's messages come from.
        writing: Where ours go.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.writing = writing

    def send(self, data: bytes) -> None:
        """Sends one encoded value."""
        write_all(self.writing, len(data).to_bytes(4, "little") + data)

    def receive(self) -> bytes:
        """The bytes of the next message."""
        size = int.from_bytes(read_exactly(4, self.reading), "little")
        if size > MAX_BYTES:
            raise EOFError("a message too long")
        return read_exactly(size, self.reading)


def no_number(value: object) -> int:
    """For messages that carry only plain values."""
    raise Unsendable(f"a {type(value).__name__} where only plain values belong")
