"""Counts the processes of this user that judge in cells at the same time, so that they share the processors.

Each holds a lock on one byte of a file, which the kernel releases when the process ends, also when it is killed. A
count that cannot be made is 1: then each process uses all processors, as if it were alone.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from contextlib import suppress
from pathlib import Path

from sandrl import forks

_FILE = "busy-processes"
_MOST = 64
_SECONDS_KNOWN = 0.5
_FLOCK = "hhqqi"


class BusyProcesses:
    """The processes that share a directory, and whether this one is busy; for one thread.

    Args:
        directory: Where they meet; None for a process that meets no other.
    """

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / f"{_FILE}-{os.uname().nodename}"
        self._descriptor = -1
        self._count = 1
        self._counted_at = -_SECONDS_KNOWN
        forks.watch(self)

    def after_fork(self) -> None:
        """Drops the lock of the parent, which a child would hold beyond its end."""
        self._leave()

    def __del__(self) -> None:
        self._leave()

    def set_busy(self, is_busy: bool) -> None:
        """Says whether this process is busy from now on."""
        if is_busy == (self._descriptor >= 0) or self._path is None:
            return
        if is_busy:
            self._join(self._path)
        else:
            self._leave()

    def _join(self, path: Path) -> None:
        with suppress(OSError):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            for place in range(_MOST):
                with suppress(BlockingIOError, PermissionError):
                    self._ask(fcntl.F_OFD_SETLK, place)
                    return

    def _leave(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def count(self) -> int:
        """How many are busy, this one included; at least 1, and as it was half a second ago at most."""
        now = time.monotonic()
        if self._descriptor >= 0 and now - self._counted_at >= _SECONDS_KNOWN:
            self._counted_at = now
            self._count = 1
            with suppress(OSError):
                self._count += sum(self._is_held(place) for place in range(_MOST))
        return self._count

    def _is_held(self, place: int) -> bool:
        return bool(self._ask(fcntl.F_OFD_GETLK, place) != fcntl.F_UNLCK)

    def _ask(self, operation: int, place: int) -> int:
        # Returns the kind of the lock that another process holds on a byte.
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        return int(struct.unpack(_FLOCK, fcntl.fcntl(self._descriptor, operation, asked))[0])
