"""How many sandboxes a job may hold, and when it may request another: the user's limit, and what the service accepts.

A refusal for lack of room is information about the service, never about the work. So the refused launch keeps its
place, and the job requests no more than the service has just shown it can hold: a window that a refusal closes to the
sandboxes that exist, and that opens by about one with every windowful that is accepted, as a network connection does.
The pause before the next try is the one the service requests, or grows with each refusal. This module uses no sandbox
and reads no clock.
"""

from __future__ import annotations

import math
import random

LONGEST_DELAY_SECONDS = 30.0

_FIRST_DELAY_SECONDS = 0.5
# A service that asks for more than this has forgotten us.
_LONGEST_HINT_SECONDS = 300.0
# After so long without a refusal, the past says nothing about the service any more; nor is it told again before.
_MEMORY_SECONDS = 60.0


def delay_seconds(failures: int, first_seconds: float) -> float:
    """How long to wait before the next try: twice as long after each failure, varied by up to a quarter.

    The random variation keeps calls that failed together from being repeated together.
    """
    if not first_seconds:
        return 0.0
    longest = min(first_seconds * 2.0 ** min(failures - 1, 16), LONGEST_DELAY_SECONDS)
    return longest * random.uniform(0.75, 1.25)


class Pace:
    """Decides when a job may request another sandbox. All times are seconds of one clock."""

    def __init__(self, max_sandboxes: int | None = None) -> None:
        self._most = math.inf if max_sandboxes is None else max_sandboxes
        self._window = math.inf
        self._refusals = 0
        self._refused_at = -math.inf
        self._resume_at = -math.inf
        self._told_at = -math.inf

    def has_room(self, held: int) -> bool:
        """Whether the job may hold more than it does."""
        return held < self._most and held + 1 <= max(self._window, 1.0)

    def seconds_left(self, now: float) -> float:
        """How long the job must still wait before its next request; 0 if it need not wait."""
        if now - max(self._refused_at, self._resume_at) > _MEMORY_SECONDS:
            self._window = math.inf
        return max(self._resume_at - now, 0.0)

    def accept(self) -> None:
        self._refusals = 0
        self._window += 1.0 / self._window

    def refuse(self, *, asked_at: float, now: float, exists: int, hint_seconds: float | None = None) -> float | None:
        """The service had no room for a sandbox.

        Args:
            exists: How many sandboxes of the job exist.

        Returns:
            How long the job waits now; None if a recent call has returned a pause already, so that it is not reported.
        """
        self._window = max(1.0, min(self._window, exists))
        # What was asked for together is refused together: that is one refusal.
        if asked_at < self._refused_at:
            return None
        self._refused_at = now
        self._refusals += 1
        pause = delay_seconds(self._refusals, _FIRST_DELAY_SECONDS)
        if hint_seconds is not None:
            # Never earlier than the service asks for, and not everybody at the same moment.
            pause = max(pause, min(hint_seconds, _LONGEST_HINT_SECONDS) * random.uniform(1.0, 1.25))
        self._resume_at = now + pause
        if now - self._told_at < _MEMORY_SECONDS:
            return None
        self._told_at = now
        return pause
