"""The sandboxes of a job that are being stopped.

Stopping is off the critical path. A stop is begun and not awaited until there are many, a launch waits for the room
that it makes, or the job ends; the end waits for all. Then sandboxes that could not be stopped one by one, and
sandboxes without a known id, are looked for by the job's tags.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime

from sandrl.errors import InfrastructureError
from sandrl.sandboxes.journal import Journal
from sandrl.sandboxes.pace import delay_seconds
from sandrl.sandboxes.session import Launch, Session, Stop, wait_for

# With this many stops in flight half are waited for: stopping thousands at once chokes a runtime.
_MAX_STOPS_IN_FLIGHT = 64
# The rest of the time is for those that could not be stopped one by one.
_SHARE_OF_STOPS = 0.7
_LEAST_SECONDS = 1.0
_MOST_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.25


class Stopping:
    """Stops sandboxes of one job.

    Args:
        own_tags: The tags of all sandboxes that this process has created for the job, encoded.

    Attributes:
        left: The ids of sandboxes that could not be stopped, after `finish` has failed.
    """

    def __init__(self, session: Session, journal: Journal, own_tags: Sequence[str]) -> None:
        self.left: tuple[str, ...] = ()
        self._session = session
        self._journal = journal
        self._own_tags = tuple(own_tags)
        self._stops: list[Stop] = []
        self._failed: list[Stop] = []
        self._has_lost_track = False

    def __len__(self) -> int:
        return len(self._stops)

    def begin(self, launch: Launch) -> None:
        if launch.sandbox_id is None and not self._session.is_gone(launch.address):
            self.lose_track()
        stop = self._session.stop(launch)
        self._stops.append(stop)
        stop.operation.add_done_callback(lambda operation: self._note_end(stop, operation))

    def _note_end(self, stop: Stop, operation: Future[None]) -> None:
        # On a thread of the provider, long before it is recorded.
        if not operation.cancelled() and operation.exception() is None:
            stop.ended_time = datetime.now(UTC)
            self._journal.spending.end(stop.key, stop.ended_time)

    def lose_track(self) -> None:
        """Notes that a sandbox without a known id may exist: its request may have reached the service."""
        self._has_lost_track = True

    def abandon(self, address: str) -> None:
        """Ends the stops at a runtime that has ended: its sandboxes have ended with it."""
        for stop in self._stops:
            if stop.address == address:
                stop.operation.cancel()
        self._stops += self._failed
        self._failed.clear()
        self.settle()

    def keep_few(self) -> None:
        """Waits for some stops if too many are under way."""
        if len(self._stops) >= _MAX_STOPS_IN_FLIGHT:
            self._collect(at_least=_MAX_STOPS_IN_FLIGHT // 2)

    def settle(self) -> None:
        for stop in [stop for stop in self._stops if stop.has_ended]:
            self._stops.remove(stop)
            # A runtime that is gone has taken its sandboxes along.
            if stop.error is not None and not self._session.is_gone(stop.address):
                self._failed.append(stop)
            else:
                self._journal.stopped(stop)

    def watch(self) -> None:
        """Makes the end of each stop also end a wait for launches, because a launch waits for the room."""
        for stop in self._stops:
            if not stop.is_watched:
                stop.is_watched = True
                stop.operation.add_done_callback(self._session.ring)

    def wait(self, ends_at: float) -> None:
        """Waits until all stops under way have ended, at most for the greater part of the time that is left.

        Args:
            ends_at: When the time is over, by the monotonic clock.
        """
        now = time.monotonic()
        self._collect(at_least=len(self._stops), ends_at=now + max(ends_at - now, 0.0) * _SHARE_OF_STOPS)

    def finish(self, ends_at: float) -> None:
        """Stops sandboxes that still exist after the wait by their tags, and ends the session.

        Raises:
            SandrlError: If that failed; `left` has the sandboxes that are known to exist.
        """
        unstopped = [*self._failed, *self._stops]
        self._failed.clear()
        self._stops.clear()
        self.left = tuple(stop.sandbox_id or stop.key for stop in unstopped)
        if (unstopped or self._has_lost_track) and self._session.may_have_reached:
            self._stop_by_tag(ends_at)
        for stop in unstopped:
            self._journal.stopped(stop)
        self.left = ()
        self._session.close(max(ends_at - time.monotonic(), _LEAST_SECONDS))

    def _stop_by_tag(self, ends_at: float) -> None:
        # Retried, because nothing else stops them.
        for attempt in itertools.count(1):
            try:
                self._session.stop_tagged(self._own_tags, max(ends_at - time.monotonic(), _LEAST_SECONDS))
            except InfrastructureError:
                pause = delay_seconds(attempt, _FIRST_PAUSE_SECONDS)
                if attempt == _MOST_ATTEMPTS or time.monotonic() + pause >= ends_at:
                    raise
                time.sleep(pause)
            else:
                return

    def _collect(self, *, at_least: int, ends_at: float | None = None) -> None:
        wait_for([stop.operation for stop in self._stops], at_least=at_least, ends_at=ends_at)
        self.settle()
