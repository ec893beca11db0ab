"""Files of a sandbox, whole, through its agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence

from sandrl.runtime import limits
from sandrl.runtime.host.process import Exit, GuestProcess, Stream
from sandrl.runtime.host.sandbox import HostSandbox

TOO_LARGE = "CWSANDBOX_FILE_TOO_LARGE"


class FileError(Exception):
    """A file that cannot be read or written, and the reason as the SDK's protocol names it: `CWSANDBOX_FILE_…`."""

    def __init__(self, path: str, reason: str, message: str, size_bytes: int = 0) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.reason = reason
        self.size_bytes = size_bytes


async def read_file(host: HostSandbox, path: str) -> bytes:
    """The content of a file.

    Raises:
        FileError: If it is missing, unreadable or too large.
    """
    content: list[bytes] = []
    await _receive(host, "read", path, content.append)
    return b"".join(content)


async def archive(host: HostSandbox, path: str, keep: Callable[[bytes], object]) -> None:
    """Pass on a tar archive of a directory, piece by piece.

    Raises:
        FileError: If it cannot be made.
    """
    await _receive(host, "archive", path, keep)


async def archive_layer(host: HostSandbox, keep: Callable[[bytes], object], left_out: Sequence[str] = ()) -> None:
    """Pass on what a sandbox has changed in its image, as a layer of an image: a tar archive, piece by piece.

    Files at the paths `left_out` are not part of it, nor are directories that have nothing else.

    Raises:
        FileError: If it cannot be made.
    """
    await _receive(host, "layer", "/", keep, left_out)


async def _receive(
    host: HostSandbox, operation: str, path: str, keep: Callable[[bytes], object], left_out: Sequence[str] = ()
) -> None:
    number, process = await host.open_file(operation, path, left_out)
    process.close_stdin()
    try:
        await _collect(process, path, keep)
    except BaseException:
        host.kill(number)
        raise


async def write_file(host: HostSandbox, path: str, content: bytes) -> None:
    """Create or replace a file.

    Raises:
        FileError: If it cannot be written.
    """
    if len(content) > limits.FILE_OPERATION_MAX_BYTES:
        raise _too_large(path, len(content))
    await _send(host, "write", path, [content])


async def unpack(host: HostSandbox, path: str, content: Iterable[bytes]) -> None:
    """Unpack a tar archive in a directory.

    Raises:
        FileError: If it cannot be unpacked.
    """
    await _send(host, "unpack", path, content)


async def _send(host: HostSandbox, operation: str, path: str, content: Iterable[bytes]) -> None:
    number, process = await host.open_file(operation, path)
    try:
        writing = asyncio.ensure_future(_write(process, content))
        await _collect(process, path, lambda _nothing: None)
        await writing
    except BaseException:
        host.kill(number)
        raise


async def _write(process: GuestProcess, content: Iterable[bytes]) -> None:
    for piece in content:
        await process.write_stdin(piece)
    process.close_stdin()


async def _collect(process: GuestProcess, path: str, keep: Callable[[bytes], object]) -> None:
    failure: list[bytes] = []
    while not isinstance(output := await process.next_output(), Exit):
        (keep if output[0] is Stream.STDOUT else failure.append)(output[1])
    if output.code == 0:
        return
    try:
        facts = json.loads(b"".join(failure))
        reason, message = str(facts["reason"]), str(facts["message"])
    except (ValueError, KeyError, TypeError):
        message = output.message or f"the file operation ended with code {output.code}"
        raise FileError(path, "CWSANDBOX_FILE_IO_FAILED", message) from None
    if "size_bytes" in facts:
        raise _too_large(path, int(facts["size_bytes"]))
    raise FileError(path, reason, message)


def _too_large(path: str, size_bytes: int) -> FileError:
    return FileError(path, TOO_LARGE, f"{size_bytes} bytes are more than one message carries", size_bytes)
