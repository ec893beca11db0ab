"""Runs one completion with its checks inside a sandbox: pipes, files and the calls of libc that this takes.

There are two processes. The *supervisor* runs none of the completion's code; it holds the clock, the output caps and
the only descriptor that reaches the host. The *child* is forked from it and runs the code. The key that marks the
verdict line as genuine is read from standard input after the fork, so the child's memory never held it.

Interpreter start dominates the cost of a judged completion, hence the unusual style: every module used in this package
is built into the interpreter (`posix` and `_signal` instead of `os` and `signal`), `_ctypes` alone is a tenth of
`ctypes`, and code runs through `exec(text)` because the first call of `compile` builds the types of `ast` (1 ms). The
syntax is that of Python 3.8, because the image decides which interpreter runs this. The files of a program become one
text (`program.py`), so no two of them define the same name; annotations and imports of one another are left out.

Standard input: a `marshal`led request, what is hidden from the completion (`hidden_size` bytes of it), 32 bytes of key.
Standard output: the output of the completion (up to the cap), a line break, and the verdict line.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
from collections.abc import Iterable

from sandrl.judge.guest.declarations import Libc


class DeadlineReached(BaseException):
    """The wall clock of the completion ran out."""


def read_exactly(size: int, descriptor: int = 0) -> bytes:
    """Reads `size` bytes from standard input or another pipe, leaving the rest in it."""
    blocks = []
    while size:
        block = posix.read(descriptor, min(size, 1 << 20))
        if not block:
            raise EOFError("the other side ended early")
        blocks.append(block)
        size -= len(block)
    return b"".join(blocks)


def load_libc() -> Libc | None:
    """Returns a function that calls libc, or None where the interpreter has no `_ctypes`."""
    try:
        import _ctypes

        libc = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    except (ImportError, OSError):
        return None

    # To find one takes longer than most calls; every child needs these.
    addresses = {name: _ctypes.dlsym(libc, name) for name in ("prctl", "setrlimit")}

    def call(name: str, *arguments: int | bytes) -> int:
        if name not in addresses:
            addresses[name] = _ctypes.dlsym(libc, name)
        return int(_ctypes.call_function(addresses[name], arguments))

    return call


def scratch_file() -> int:
    """Opens a nameless file; a file, not a pipe, so that a flood blocks nobody and needs no pump."""
    try:
        return posix.open("/tmp", posix.O_RDWR | posix.O_TMPFILE | posix.O_APPEND, 0o600)
    except OSError:
        path = f"/tmp/.sandrl-{posix.getpid()}-{posix.times()[4]}"
        descriptor = posix.open(path, posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_APPEND, 0o600)
        posix.unlink(path)
        return descriptor


def head(descriptor: int, limit: int) -> tuple[bytes, int]:
    """Returns the first `limit` bytes of a scratch file and its whole size."""
    size = posix.fstat(descriptor).st_size
    blocks = []
    offset = 0
    while offset < min(size, limit):
        block = posix.pread(descriptor, min(limit - offset, 1 << 20), offset)
        if not block:
            break
        blocks.append(block)
        offset += len(block)
    return b"".join(blocks), size


def kill_quietly(target: int, number: int = _signal.SIGKILL) -> None:
    """Signals a process that may be gone, or out of reach."""
    try:
        posix.kill(target, number)
    except OSError:
        pass


def close_others(kept: Iterable[int]) -> None:
    """Closes all descriptors but the standard streams and those that are named."""
    lowest = 3
    for descriptor in (*sorted(kept), 1 << 16):
        posix.closerange(lowest, descriptor)
        lowest = descriptor + 1


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[posix.write(descriptor, view) :]
