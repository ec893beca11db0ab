"""Locks of a directory's content between processes and threads, which end with their holders."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path


def take(path: Path, *, exclusive: bool) -> int:
    """Locks a file, which is made if it is missing; returns a descriptor that holds the lock until it is closed."""
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    while (descriptor := _try(path, mode)) is None:
        pass
    return descriptor


def take_free(path: Path, *, exclusive: bool) -> int | None:
    """As `take`, but returns None at once if another holds the lock."""
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        while (descriptor := _try(path, mode | fcntl.LOCK_NB)) is None:
            pass
    except BlockingIOError:
        return None
    return descriptor


def remove(path: Path, descriptor: int) -> None:
    """Removes the file of a lock that this process holds exclusively, and lets it go."""
    with suppress(FileNotFoundError):
        path.unlink()
    os.close(descriptor)


def _try(path: Path, mode: int) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, mode)
        # Whoever removes the file holds its lock, so this may be the lock of a file that is gone.
        if os.path.samestat(os.fstat(descriptor), path.lstat()):
            return descriptor
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
