"""Stalls: periods in which this process or the runtime did nothing at all, while every timeout continued to run.

A stall shows as a long pause between two signs of life. This process gives one whenever it waits for its sandboxes, at
least once a second; the runtime gives one with each answer to a call that is made once a second. A failure during a
stall is no evidence about the code that ran. This module calls no runtime and reads no clock.
"""

from __future__ import annotations

from collections import deque

BEAT_SECONDS = 1.0
"""How far signs of life are apart."""
STALL_SECONDS = 3.0
"""A pause so long is a stall; shorter than any that makes a command run out of its time."""

_REMEMBERED = 1000


class SignsOfLife:
    """When something last showed that it runs, and how long its pauses were. All times are seconds of one clock."""

    def __init__(self) -> None:
        self._pauses: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)
        self._last: float | None = None

    def note(self, now: float) -> None:
        """It runs."""
        if self._last is not None and now - self._last > STALL_SECONDS:
            self._pauses.append((self._last, now))
        self._last = now if self._last is None else max(self._last, now)

    def forget(self) -> None:
        """No sign is expected any more, until the next one."""
        self._last = None

    def longest_pause(self, since: float, now: float) -> float:
        """The longest time without a sign since some moment, up to now; 0 where none was expected."""
        pauses = [*self._pauses] if self._last is None else [*self._pauses, (self._last, now)]
        return max((end - max(begin, since) for begin, end in pauses), default=0.0)
