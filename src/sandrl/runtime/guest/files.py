"""Reading and writing one file of a sandbox, in a process of its own.

A path inside a sandbox may be anything the code in it made: a pipe without a reader, a device, a link in a circle. So
the agent forks, and the child, a sandboxed process like any other, does the work and may block or be killed. It uses
the same three pipes as a program: content in, content out, and one JSON object that describes an error.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat

from sandrl.runtime.guest import accounts, archives, processes
from sandrl.runtime.guest import syscalls as sc
from sandrl.runtime.guest.wire import Message

_CHUNK_BYTES = 1 << 18
_REASONS = {
    errno.ENOENT: "CWSANDBOX_FILE_NOT_FOUND",
    errno.ENOTDIR: "CWSANDBOX_FILE_NOT_FOUND",
    errno.EISDIR: "CWSANDBOX_FILE_IS_DIRECTORY",
    errno.EACCES: "CWSANDBOX_FILE_PERMISSION_DENIED",
    errno.EPERM: "CWSANDBOX_FILE_PERMISSION_DENIED",
    errno.EROFS: "CWSANDBOX_FILE_PERMISSION_DENIED",
}


class _TooLargeError(Exception):
    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"file is {size_bytes} bytes")
        self.size_bytes = size_bytes


def start(
    message: Message,
    streams: tuple[int, int, int],
    *,
    keep_open: list[int],
    account: accounts.Account | None,
    upper: int,
) -> int:
    """Fork a process that does `message["file"]`; returns its pid.

    It holds none of `keep_open`. It may `read` or `write` a file, as an account, or `archive` or `unpack` a directory,
    or archive `upper`, the files that the sandbox has changed in its image, as a `layer`.
    """
    pid = os.fork()
    if pid:
        return pid
    stdin, stdout, stderr = streams
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        processes.limit_open_files()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in keep_open:
            if descriptor not in streams:
                os.close(descriptor)
        if upper >= 0 and message["file"] != "layer":
            os.close(upper)
        if account is None:
            sc.set_capabilities()
        elif message["file"] in ("read", "write"):
            account.become()
        if message["file"] == "read":
            _read(message["path"], stdout, int(message["max_bytes"]))
        elif message["file"] == "write":
            _write(message["path"], stdin)
        elif message["file"] == "archive":
            archives.write(message["path"], stdout)
        elif message["file"] == "layer":
            archives.write_layer(upper, stdout, frozenset(message["left_out"]))
        else:
            archives.read(message["path"], stdin)
        code = 0
    except _TooLargeError as error:
        failure = {"reason": "CWSANDBOX_FILE_TOO_LARGE", "message": str(error), "size_bytes": error.size_bytes}
        os.write(stderr, json.dumps(failure).encode())
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, "CWSANDBOX_FILE_IO_FAILED")
        os.write(stderr, json.dumps({"reason": reason, "message": error.strerror or str(error)}).encode())
    finally:
        os._exit(code)


def _read(path: str, output: int, max_bytes: int) -> None:
    # O_NONBLOCK: opening a pipe without a writer must not wait for one.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if status.st_size > max_bytes:
        raise _TooLargeError(status.st_size)
    total = 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        total += len(chunk)
        if total > max_bytes:
            raise _TooLargeError(total)
        _write_all(output, chunk)


def _write(path: str, source: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    while chunk := os.read(source, _CHUNK_BYTES):
        _write_all(descriptor, chunk)
    os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
