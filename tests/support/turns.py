"""Tests of several processes run side by side, except those that must run alone.

There are two locks of the kernel. A test holds `machine` while it runs: shared, or exclusively if it must
run alone. It holds `queue` while it waits for `machine`: without `queue`, workers with many short tests would renew
their shared locks again and again, and the exclusive one would never be granted.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """Waits until a test may run; holds the others back while a test runs alone."""
    with (directory / "queue").open("wb") as queue, (directory / "machine").open("wb") as machine:
        fcntl.flock(queue, fcntl.LOCK_EX)
        try:
            fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        finally:
            fcntl.flock(queue, fcntl.LOCK_UN)
        try:
            yield
        finally:
            # Closing would not be enough: a process that the test forked may have inherited the descriptor.
            fcntl.flock(machine, fcntl.LOCK_UN)
