"""The pace of requests to an endpoint: how many are sent, how fast, and until when all of them wait.

A limit of an endpoint is that of all requests together. So the clients of a process that ask the same endpoint with the
same key share a pace, and a refused request waits for its turn again. The pace is measured, because few endpoints
report their limits: after a refusal, requests follow one another as fast as answers came before, and faster with each
answer. If connections break under load, fewer requests are in flight (additive increase, multiplicative decrease). All
of it runs on the loop of the process.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from sandrl import forks

PATIENCE_SECONDS = 900.0
"""How long an endpoint may refuse every request because of a limit before it counts as unavailable."""

LONGEST_WAIT_SECONDS = 3600.0
"""The longest wait that an endpoint may ask for; one that asks for more has no room today."""

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 60.0
# After each answer requests follow one another this much faster; near the pace that was refused, and away from it.
_SLOWLY, _QUICKLY = 0.995, 0.95
_NEAR = 1.25
# After fewer answers than this between two refusals the pace was much too fast.
_FEW = 10
_FASTEST_SECONDS = 0.001
# Between two looks at the clock, which may have been told to wait longer.
_LOOK_SECONDS = 1.0
_TELL_SECONDS = 15.0
# A burst before the first refusal is no rate.
_MEASURED_SECONDS = 5.0
# Shorter waits are part of what is finished when the user wishes to stop.
_LONG_WAIT_SECONDS = 5.0

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_SCALES = (86_400.0, 3600.0, 60.0, 1.0, 0.001)
_EPOCH_SECONDS, _EPOCH_MILLISECONDS = 1e9, 1e11


class UnavailableError(Exception):
    """The endpoint has refused every request for too long; says why."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Requests wait so many seconds; `per_second` were answered since the last wait, None if that was a moment ago."""

    seconds: float
    per_second: float | None


class EndpointPace:
    def __init__(self) -> None:
        self._turns = asyncio.Lock()
        self._freed = asyncio.Event()
        self._in_flight = 0
        self._at_once = math.inf
        self._interval = 0.0
        # No request is sent before, as the clock counts.
        self._next = 0.0
        # The interval that was refused last; 0 if none was yet.
        self._refused_interval = 0.0
        # Since the last wait for a limit.
        self._answers = 0
        self._began: float | None = None
        self._is_measuring = False
        # What was sent before says nothing about the pace since then.
        self._limited_at = self._loaded_at = -math.inf
        self._refusals = 0
        self._refused_since: float | None = None
        self._hopeless_until = -math.inf
        self._reason = ""
        self._told_at = -math.inf

    async def begin(self, is_stopping: Callable[[], bool] = lambda: False) -> float:
        """Waits for a turn, in the order of asking, and returns when the request is sent; `end` gives the turn back.

        Raises:
            UnavailableError: If no request has been taken for too long, or a long wait is given up.
        """
        async with self._turns:
            while True:
                now = time.monotonic()
                if now < self._hopeless_until:
                    raise UnavailableError(self._reason)
                if self._next - now > _LONG_WAIT_SECONDS and is_stopping():
                    raise UnavailableError(f"a stop was requested, and it asks to wait {self._next - now:.0f} s")
                if now < self._next:
                    await asyncio.sleep(min(self._next - now, _LOOK_SECONDS))
                elif self._in_flight >= int(min(self._at_once, 1 << 30)):
                    self._freed.clear()
                    await self._freed.wait()
                else:
                    break
            if self._is_measuring:
                self._interval = min(self._measured(now), _LONGEST_PAUSE_SECONDS)
                self._is_measuring, self._answers, self._began = False, 0, now
            if self._began is None:
                self._began = now
            self._next = now + self._interval
            self._in_flight += 1
            return now

    def end(self) -> None:
        self._in_flight -= 1
        self._freed.set()

    def answered(self) -> None:
        """A request was answered, so the next ones may be a little faster."""
        self._answers += 1
        self._refusals, self._refused_since = 0, None
        self._interval *= _SLOWLY if self._interval < self._refused_interval * _NEAR else _QUICKLY
        if self._interval < _FASTEST_SECONDS:
            self._interval = 0.0
        self._at_once += 1 / self._at_once

    def refused(self, sent_at: float, wait_seconds: float, reason: str) -> Slowdown | None:
        """A request was refused because of a limit: all requests wait; `wait_seconds` is 0 if it does not say.

        Returns what to tell the user; None if that was told a moment ago.
        """
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        if now - self._refused_since > PATIENCE_SECONDS + wait_seconds or wait_seconds > LONGEST_WAIT_SECONDS:
            self._hopeless_until, self._reason = now + _LONGEST_PAUSE_SECONDS, reason
        if sent_at < self._limited_at:
            # Sent at an earlier pace; how long to wait is news all the same.
            self._next = max(self._next, now + wait_seconds)
            return None
        pause = wait_seconds or min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self._refusals, 16), _LONGEST_PAUSE_SECONDS)
        self._refusals += 1
        self._limited_at, self._is_measuring = now, True
        self._next = max(self._next, now + pause)
        if now - self._told_at < _TELL_SECONDS:
            return None
        self._told_at = now
        seconds = now - (self._began or now)
        is_measured = self._answers and seconds >= _MEASURED_SECONDS
        return Slowdown(self._next - now, self._answers / seconds if is_measured else None)

    def overloaded(self, sent_at: float) -> bool:
        """A request failed as it does under load; returns whether fewer are in flight from now on because of that."""
        if sent_at < self._loaded_at:
            return True
        at_once = min(self._at_once, self._in_flight + 1)
        if at_once < 2:
            return False
        self._at_once, self._loaded_at = max(at_once / 2, 1.0), time.monotonic()
        return True

    # The seconds between two requests that the endpoint would answer, by those that it did answer.
    def _measured(self, now: float) -> float:
        refused, self._refused_interval = self._interval, self._interval
        if not self._answers or self._began is None:
            return 2 * refused or _FIRST_PAUSE_SECONDS
        measured = (now - self._began) / self._answers
        # Whether the requests came too fast, or only a little too fast.
        return min(measured, refused * (_NEAR if self._answers >= _FEW else 2.0)) if refused else measured


class _Paces:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None], EndpointPace] = {}
        forks.watch(self)

    def after_fork(self) -> None:
        self._known.clear()

    def of(self, base_url: str, key: str | None) -> EndpointPace:
        return self._known.setdefault((base_url, key), EndpointPace())


PACES = _Paces()
"""The paces of this process, by endpoint."""


def wait_seconds(headers: Mapping[str, str]) -> float:
    """How long an endpoint asks to wait, by its headers, their names in lower case; 0 if it does not say."""
    now = _moment(headers.get("date", "")) or time.time()
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _seconds(headers.get(name, ""), now)
        if seconds is not None and seconds > 0:
            return seconds * scale
    return min(_reset_seconds(headers, now), _LONGEST_PAUSE_SECONDS)


# When limits are reset: those that are used up, or else the first of all.
def _reset_seconds(headers: Mapping[str, str], now: float) -> float:
    used_up: list[float] = []
    others: list[float] = []
    for name, text in headers.items():
        seconds = _seconds(text, now) if "ratelimit" in name and "reset" in name else None
        if seconds is not None and seconds > 0:
            is_used_up = headers.get(name.replace("reset", "remaining"), "").strip() in ("0", "0.0")
            (used_up if is_used_up else others).append(seconds)
    return max(used_up) if used_up else min(others, default=0.0)


# Seconds, a duration (`6m0s`), or a moment in any of the forms in use, as seconds from now.
def _seconds(text: str, now: float) -> float | None:
    text = text.strip()
    duration = _DURATION.fullmatch(text)
    if text and duration is not None:
        parts = (float(part or 0) * scale for part, scale in zip(duration.groups(), _SCALES, strict=True))
        return math.fsum(parts)
    try:
        number = float(text)
    except ValueError:
        moment = _moment(text)
        return None if moment is None else moment - now
    if not math.isfinite(number):
        return None
    if number > _EPOCH_MILLISECONDS:
        number /= 1000
    return number - now if number > _EPOCH_SECONDS else number


def _moment(text: str) -> float | None:
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        with suppress(ValueError, OverflowError):
            moment = parse(text)
            return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    return None
