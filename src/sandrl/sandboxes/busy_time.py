"""For how long at least one command of a job was under way, by the clock: the rest of the time its sandboxes idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterable


class BusyTime:
    """Adds up the time in which something is under way; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[Hashable] = set()
        self._seconds = self._since = 0.0

    def begin(self, work: Hashable) -> None:
        with self._lock:
            if not self._under_way:
                self._since = time.monotonic()
            self._under_way.add(work)

    def end(self, ended: Iterable[Hashable]) -> None:
        """Notes that work has ended; what never began here does not count."""
        with self._lock:
            was_busy = bool(self._under_way)
            self._under_way.difference_update(ended)
            if was_busy and not self._under_way:
                self._seconds += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        with self._lock:
            return self._seconds + (time.monotonic() - self._since if self._under_way else 0.0)
