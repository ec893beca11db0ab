"""The sandbox time that a job uses, and its limit.

A sandbox counts as used from its request until it has ended, whether or not it works. The ledger has a line for both
moments with the same times, so it gives the same sum. Before the limit is reached, work begins only as far as it fits
by the cost of the completions so far; one completion may always begin. When the limit is exceeded by the cost of one
completion, all work under way is cancelled; for this cost, what has begun counts as what has ended. Threads may share
an object of this module, because a stop ends on a thread of its provider.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from sandrl.config.budget import Money
from sandrl.runs.held import PRICE_OPTION, SandboxTime
from sandrl.sandboxes.interrupt import Level

_LEAST_TOLERANCE_SECONDS = 1.0
_LEAST_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much sandbox time a job may use.

    Attributes:
        budget: The budget as the user has written it; empty without one.
        seconds: The sandbox time that it allows the run.
        price: The price of a sandbox-hour; None if it is not known.
        before_seconds: The sandbox time that earlier jobs of the run have used.
    """

    budget: str = ""
    seconds: float = math.inf
    price: Money | None = None
    before_seconds: float = 0.0

    @property
    def left_seconds(self) -> float:
        return self.seconds - self.before_seconds

    @property
    def facts(self) -> dict[str, JsonValue]:
        """The part that a run stores: the price, if there is one."""
        return {} if self.price is None else {PRICE_OPTION: str(self.price)}

    def shared(self, processes: int) -> Allowance:
        """The share of one of several processes, each of which has a job of its own."""
        share = self.left_seconds / processes
        return Allowance(self.budget, self.before_seconds + share, self.price, self.before_seconds)


class Spending:
    """Counts the sandbox time of a job.

    Args:
        longest_seconds: The most that one completion is expected to take, as long as none has ended.
        on_reached: Called when no more work may begin, and when the work under way is to be cancelled.
    """

    def __init__(
        self, allowance: Allowance, *, longest_seconds: float, on_reached: Callable[[Level], None] = lambda _: None
    ) -> None:
        self.allowance = allowance
        self.is_bounded = allowance.seconds != math.inf
        self.level = Level.NONE
        self._longest_seconds = longest_seconds
        self._on_reached = on_reached
        self._lock = threading.RLock()
        self._open: dict[str, datetime] = {}
        self._ended: dict[str, tuple[datetime, datetime]] = {}
        self._closed_seconds = 0.0
        self._told_seconds = 0.0
        self._finished = 0

    def begin(self, key: str, at: datetime) -> None:
        with self._lock:
            if key in self._open:
                self._close(key, at)
            self._ended.pop(key, None)
            self._open[key] = at

    def pause(self, key: str) -> None:
        """A sandbox was refused, so it does not exist until it is requested again."""
        with self._lock:
            self._open.pop(key, None)

    def end(self, key: str, at: datetime) -> tuple[datetime | None, datetime]:
        """A sandbox has ended; its first end counts.

        Returns:
            When it was requested (None if never, or if it was refused), and when it ended.
        """
        with self._lock:
            if key in self._open:
                self._ended[key] = (self._open[key], at)
                self._close(key, at)
            known = self._ended.get(key)
            return (None, at) if known is None else known

    def _close(self, key: str, at: datetime) -> None:
        self._closed_seconds += _seconds(self._open.pop(key), at)

    def forget(self, key: str) -> None:
        with self._lock:
            self._ended.pop(key, None)

    def open_keys(self, prefix: str) -> list[str]:
        with self._lock:
            return [key for key in self._open if key.startswith(prefix)]

    @property
    def seconds(self) -> float:
        with self._lock:
            at = datetime.now(UTC)
            return self._closed_seconds + math.fsum(_seconds(since, at) for since in self._open.values())

    @property
    def held(self) -> SandboxTime:
        """The sandbox time that the run has used so far, including earlier jobs."""
        return SandboxTime(self.allowance.before_seconds + self.seconds, self.allowance.price)

    def take(self) -> float:
        """The sandbox time used since the last call; below 0 if sandboxes had ended earlier than was known then."""
        with self._lock:
            seconds = self.seconds
            new, self._told_seconds = seconds - self._told_seconds, seconds
            return new

    def finish(self) -> None:
        self._finished += 1

    @property
    def _each(self) -> float:
        return self.seconds / self._finished if self._finished else self._longest_seconds

    def limit(self, window: int) -> int:
        """How many completions may be under way at once: as many as fit into the time that is left, but at least one.

        When no time is left, it is 0.
        """
        if not self.is_bounded:
            return window
        left = self.allowance.left_seconds - self.seconds
        if left <= 0 or self.level is not Level.NONE:
            return 0
        return min(window, max(int(left / max(self._each, 1e-9)), 1))

    def look(self) -> None:
        """Stops the work if the limit is reached, and cancels it if the excess is the cost of one completion."""
        if not self.is_bounded or self.level is Level.CANCEL:
            return
        over = self.seconds - self.allowance.left_seconds
        if over >= self._tolerance:
            self._reach(Level.CANCEL)
        elif over >= 0:
            self._reach(Level.FINISH)

    def expect(self, seconds: float) -> None:
        """Stops the work if this much additional sandbox time would exceed the limit."""
        if self.is_bounded and self.seconds + seconds > self.allowance.left_seconds:
            self._reach(Level.FINISH)

    def seconds_to_look(self) -> float:
        """How long until the next limit is reached with the current number of sandboxes; infinity if never."""
        if not self.is_bounded or self.level is Level.CANCEL or not self._open:
            return math.inf
        bound = self.allowance.left_seconds + (self._tolerance if self.level is Level.FINISH else 0.0)
        return max((bound - self.seconds) / max(len(self._open), 1), _LEAST_PAUSE_SECONDS)

    @property
    def _tolerance(self) -> float:
        # Much work that begins together, and of which little has ended, must not seem to cost more the longer it takes.
        begun = self._finished + len(self._open)
        each = self.seconds / begun if begun > 1 else self._longest_seconds
        return max(min(each, self._longest_seconds), _LEAST_TOLERANCE_SECONDS)

    def _reach(self, level: Level) -> None:
        if level > self.level:
            self.level = level
            self._on_reached(level)

    @property
    def text(self) -> str:
        return f"the budget of {self.allowance.budget} is used up ({self.held.text} of sandbox time)"


def _seconds(since: datetime, until: datetime) -> float:
    return max((until - since).total_seconds(), 0.0)
