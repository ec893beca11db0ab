"""The sandbox time that a job uses, and its limit.

A sandbox counts as used from its request until it has ended, whether or not it works. The ledger has a line for both
moments with the same times, so it gives the same sum. Before the limit is reached, work begins only as far as it fits
by the cost of the completions so far; one completion may always begin. When the limit is exceeded by the cost of one
completion, all work under way is cancelled. Threads may share an object of this module, because a stop ends on a thread
of its provider.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from sandrl.config.budget import Money
from sandrl.runs.held import PRICE_OPTION, Held
from sandrl.runs.rows import now
from sandrl.sandboxes.interrupt import Level

_LEAST_TOLERANCE_SECONDS = 1.0
_LEAST_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much sandbox time a job may use.

    Attributes:
        budget: The budget as the user has written it; empty without one.
        seconds: What it allows the run, in sandbox time.
        price: The price of a sandbox-hour; None if it is not known.
        before_seconds: What earlier jobs of the run have used.
    """

    budget: str = ""
    seconds: float = math.inf
    price: Money | None = None
    before_seconds: float = 0.0

    @property
    def left_seconds(self) -> float:
        """What is left for the job."""
        return self.seconds - self.before_seconds

    @property
    def facts(self) -> dict[str, JsonValue]:
        """What a run keeps of it: the price, where there is one."""
        return {} if self.price is None else {PRICE_OPTION: str(self.price)}

    def shared(self, processes: int) -> Allowance:
        """The share of one of several processes, each of which has a job of its own."""
        share = self.left_seconds / processes
        return Allowance(self.budget, self.before_seconds + share, self.price, self.before_seconds)


class Spending:
    """Counts the sandbox time of a job.

    Args:
        allowance: How much it may use.
        longest_seconds: The most that one completion is expected to take, as long as none has ended.
        on_reached: Called when nothing more may be begun, and when what is under way is to be cancelled.
    """

    def __init__(
        self, allowance: Allowance, *, longest_seconds: float, on_reached: Callable[[Level], None] = lambda _: None
    ) -> None:
        self.allowance = allowance
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
        """A sandbox is about to be asked for."""
        with self._lock:
            if key in self._open:
                self._close(key, at)
            self._ended.pop(key, None)
            self._open[key] = at

    def pause(self, key: str) -> None:
        """A sandbox was refused: there is none until it is asked for again."""
        with self._lock:
            self._open.pop(key, None)

    def end(self, key: str, at: datetime) -> tuple[datetime | None, datetime]:
        """A sandbox is gone; the first end of one counts.

        Returns:
            When it was asked for, which is None if it never was, or was refused; and when it ended.
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
        """The end of a sandbox is written down."""
        with self._lock:
            self._ended.pop(key, None)

    def open_keys(self, prefix: str) -> list[str]:
        """The sandboxes whose keys begin so, and that have not ended."""
        with self._lock:
            return [key for key in self._open if key.startswith(prefix)]

    @property
    def seconds(self) -> float:
        """What the job has used so far."""
        with self._lock:
            at = now()
            return self._closed_seconds + math.fsum(_seconds(since, at) for since in self._open.values())

    @property
    def held(self) -> Held:
        """What the run has used so far, earlier jobs included."""
        return Held(self.allowance.before_seconds + self.seconds, self.allowance.price)

    def take(self) -> float:
        """What was used since the last call; below 0 where sandboxes have ended earlier than was known then."""
        with self._lock:
            seconds = self.seconds
            new, self._told_seconds = seconds - self._told_seconds, seconds
            return new

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound at all."""
        return self.allowance.seconds != math.inf

    def finish(self) -> None:
        """A completion, or an episode, has ended that has used sandboxes."""
        self._finished += 1

    @property
    def _each(self) -> float:
        """What one completion is expected to use."""
        return self.seconds / self._finished if self._finished else self._longest_seconds

    def limit(self, window: int) -> int:
        """How many completions may be under way at once: no more than fit into what is left, and one in any case.

        Args:
            window: How many there would be otherwise.
        """
        if not self.is_bounded:
            return window
        left = self.allowance.left_seconds - self.seconds
        if left <= 0 or self.level is not Level.NONE:
            return 0
        return min(window, max(int(left / max(self._each, 1e-9)), 1))

    def look(self) -> None:
        """Has the work stop where the bound is reached, and cancelled where it is exceeded by one completion."""
        if not self.is_bounded or self.level is Level.CANCEL:
            return
        over = self.seconds - self.allowance.left_seconds
        if over >= self._tolerance:
            self._reach(Level.CANCEL)
        elif over >= 0:
            self._reach(Level.FINISH)

    def expect(self, seconds: float) -> None:
        """Has the work stop if so much more than it has used would exceed the bound."""
        if self.is_bounded and self.seconds + seconds > self.allowance.left_seconds:
            self._reach(Level.FINISH)

    def seconds_to_look(self) -> float:
        """How long until the next bound is reached, if as many sandboxes exist as do now; infinity if it is not."""
        if not self.is_bounded or self.level is Level.CANCEL or not self._open:
            return math.inf
        bound = self.allowance.left_seconds + (self._tolerance if self.level is Level.FINISH else 0.0)
        return max((bound - self.seconds) / max(len(self._open), 1), _LEAST_PAUSE_SECONDS)

    @property
    def _tolerance(self) -> float:
        return max(min(self._each, self._longest_seconds), _LEAST_TOLERANCE_SECONDS)

    def _reach(self, level: Level) -> None:
        if level > self.level:
            self.level = level
            self._on_reached(level)

    @property
    def text(self) -> str:
        """What a job ends with that has used its budget up."""
        return f"the budget of {self.allowance.budget} is used up ({self.held.text} of sandbox time)"


def _seconds(since: datetime, until: datetime) -> float:
    return max((until - since).total_seconds(), 0.0)
