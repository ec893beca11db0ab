"""Files of a sandbox, whole, through its agent."""

from __future__ import annotations

import asyncio
import json

import grpc

from sandrl.runtime import limits
from sandrl.runtime.host.process import Exit, GuestProcess, Stream
from sandrl.runtime.host.sandbox import HostSandbox
from sandrl.runtime.server.faults import Fault

_STATUS_OF_REASON = {
    "CWSANDBOX_FILE_NOT_FOUND": grpc.StatusCode.NOT_FOUND,
    "CWSANDBOX_FILE_IS_DIRECTORY": grpc.StatusCode.FAILED_PRECONDITION,
    "CWSANDBOX_FILE_PERMISSION_DENIED": grpc.StatusCode.PERMISSION_DENIED,
    "CWSANDBOX_FILE_TOO_LARGE": grpc.StatusCode.FAILED_PRECONDITION,
}


async def read_file(host: HostSandbox, path: str) -> bytes:
    """The content of a file.

    Raises:
        Fault: With the SDK's reason for a missing, unreadable or too large file.
    """
    number, process = await host.open_file("read", path, max_bytes=limits.FILE_OPERATION_MAX_BYTES)
    process.close_stdin()
    try:
        return await _collect(process, path)
    except BaseException:
        host.kill(number)
        raise


async def write_file(host: HostSandbox, path: str, content: bytes) -> None:
    """Create or replace a file.

    Raises:
        Fault: With the SDK's reason if it cannot be written.
    """
    if len(content) > limits.FILE_OPERATION_MAX_BYTES:
        raise _too_large(path, len(content))
    number, process = await host.open_file("write", path, max_bytes=limits.FILE_OPERATION_MAX_BYTES)
    try:
        writing = asyncio.ensure_future(_write(process, content))
        await _collect(process, path)
        await writing
    except BaseException:
        host.kill(number)
        raise


async def _write(process: GuestProcess, content: bytes) -> None:
    await process.write_stdin(content)
    process.close_stdin()


async def _collect(process: GuestProcess, path: str) -> bytes:
    content: list[bytes] = []
    failure: list[bytes] = []
    while not isinstance(output := await process.next_output(), Exit):
        (content if output[0] is Stream.STDOUT else failure).append(output[1])
    if output.code == 0:
        return b"".join(content)
    raise _fault(path, b"".join(failure), output)


def _fault(path: str, failure: bytes, end: Exit) -> Fault:
    try:
        facts = json.loads(failure)
        reason, message = str(facts["reason"]), str(facts["message"])
    except (ValueError, KeyError, TypeError):
        facts, reason = {}, "CWSANDBOX_FILE_IO_FAILED"
        message = end.message or f"the file operation ended with code {end.code}"
    if "size_bytes" in facts:
        return _too_large(path, int(facts["size_bytes"]))
    code = _STATUS_OF_REASON.get(reason, grpc.StatusCode.INTERNAL)
    return Fault(code, f"{path}: {message}", reason=reason, metadata={"filepath": path})


def _too_large(path: str, size_bytes: int) -> Fault:
    return Fault(
        grpc.StatusCode.FAILED_PRECONDITION,
        f"{path}: {size_bytes} bytes are more than one message carries",
        reason="CWSANDBOX_FILE_TOO_LARGE",
        metadata={
            "filepath": path,
            "size_bytes": str(size_bytes),
            "max_size_bytes": str(limits.FILE_OPERATION_MAX_BYTES),
        },
    )
