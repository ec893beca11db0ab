"""Admits trials to this machine by the memory and the processors that their sandboxes may use.

Memory is not promised twice, because a machine without memory ends programs that have no part in it. Processors are:
agents wait for models most of the time. Trials are admitted in the order in which they ask, so a large one has its
turn.
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandrl.sandboxes import Connection

PROMISES_PER_PROCESSOR = 4.0
LEAST_ROOM_BYTES = 1 << 30
"""What is left of the memory for everything else, besides a tenth of it."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Capacity:
    """Memory and processors that trials share; threads may share one."""

    def __init__(self, memory_bytes: float, processors: float) -> None:
        self._memory_bytes = memory_bytes
        self._processors = processors
        self._used_bytes = 0
        self._used_processors = 0.0
        self._admitted = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def memory_bytes(self) -> float:
        """How much memory there is for trials; infinite without a limit."""
        return self._memory_bytes

    @contextmanager
    def take(
        self, memory_bytes: int, processors: float, *, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[bool]:
        """Waits for room and holds it; one that needs more than there is waits until nothing else is held.

        Args:
            is_wanted: Whether room is still wanted; who changes that calls `look`.

        Returns:
            Whether there is room; not if it is wanted no more.
        """
        turn = object()
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(
                    lambda: not is_wanted() or (self._waiting[0] is turn and self._fits(memory_bytes, processors))
                )
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
            has_room = is_wanted()
            if has_room:
                self._hold(1, memory_bytes, processors)
        try:
            yield has_room
        finally:
            if has_room:
                with self._changed:
                    self._hold(-1, -memory_bytes, -processors)
                    self._changed.notify_all()

    def look(self) -> None:
        """Has those that wait look whether they still want room."""
        with self._changed:
            self._changed.notify_all()

    def _fits(self, memory_bytes: int, processors: float) -> bool:
        return not self._admitted or (
            self._used_bytes + memory_bytes <= self._memory_bytes
            and self._used_processors + processors <= self._processors
        )

    def _hold(self, count: int, memory_bytes: int, processors: float) -> None:
        self._admitted += count
        self._used_bytes += memory_bytes
        self._used_processors = self._used_processors + processors if self._admitted else 0.0


def capacity_of(connection: Connection) -> Capacity:
    """What trials share on a runtime: that of this machine, which all jobs of the process share, or no limit."""
    return _of_machine() if connection.is_local else Capacity(math.inf, math.inf)


@functools.cache
def _of_machine() -> Capacity:
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            memory_bytes = min(memory_bytes, int(Path(path).read_text(encoding="ascii")))
    room = max(LEAST_ROOM_BYTES, memory_bytes // 10)
    return Capacity(memory_bytes - room, PROMISES_PER_PROCESSOR * len(os.sched_getaffinity(0)))
