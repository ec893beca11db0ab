"""Stalls: periods in which this process or the runtime did nothing at all, while every timeout continued to run.

A stall shows as a long pause between two signs of life. This process gives one whenever it waits for its sandboxes, at
least once a second; the runtime gives one with each answer to a call that is made once a second. A failure during a
stall says nothing about the code that ran. This module calls no runtime and reads no clock.
"""

from __future__ import annotations

from collections import deque

BEAT_SECONDS = 1.0
"""The time between two signs of life."""
STALL_SECONDS = 3.0
"""A longer pause is a stall; shorter than any pause that makes a command exceed its timeout."""

_REMEMBERED = 1000


class Heartbeats:
    """The last sign of life of a process or runtime, and its pauses. All times are seconds of one clock."""

    def __init__(self) -> None:
        self._pauses: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)
        self._last: float | None = None

    def note(self, now: float) -> None:
        if self._last is not None and now - self._last > STALL_SECONDS:
            self._pauses.append((self._last, now))
        self._last = now if self._last is None else max(self._last, now)

    def forget(self) -> None:
        """Expects no sign of life until the next one arrives."""
        self._last = None

    def longest_pause(self, since: float, now: float) -> float:
        """The longest time without a sign of life from `since` to `now`; 0 if no sign was expected."""
        pauses = [*self._pauses] if self._last is None else [*self._pauses, (self._last, now)]
        return max((end - max(begin, since) for begin, end in pauses), default=0.0)
