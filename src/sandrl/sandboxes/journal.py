"""A job's records of its sandboxes: registry, ledger and events.

Everything is written ahead. The job is entered into the registry before its first sandbox, and each sandbox into the
ledger before its request, so if a job is killed at any time, its sandboxes can be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias

from sandrl.errors import ServiceError
from sandrl.events import Emit, Event, SandboxCreated, SandboxStopped, Warned
from sandrl.runs.rows import SandboxEvent, SandboxRow, now
from sandrl.sandboxes.registry import JobEntry, Registration
from sandrl.sandboxes.session import Launch, Stop
from sandrl.sandboxes.spending import Spending

Ledger: TypeAlias = Callable[[SandboxRow], None]
"""Records what a job does with a sandbox; the row is on disk before the call returns."""


class Journal:
    """A job's entry in the registry, its ledger, the time that it uses, and the receiver of its events."""

    def __init__(
        self, entry: JobEntry, registration: Registration, ledger: Ledger | None, emit: Emit, spending: Spending
    ) -> None:
        self.tell = emit
        self.spending = spending
        self._announced: dict[str, datetime] = {}
        self._entry = entry
        self.registration = registration
        self._ledger = ledger
        self._has_warned = False

    def intend(self, launch: Launch) -> None:
        self.registration.renew()
        at = now()
        self.spending.begin(launch.key, at)
        self._announced[launch.key] = at
        tags = (*self._entry.tags, *launch.tags)
        self._record(SandboxEvent.INTENT, launch.key, tags=tags, owner=self._entry.owner, time=at)

    def lost(self, key: str) -> None:
        """A sandbox was never created, as far as is known."""
        self._write_end(key, None, now())

    def _write_end(self, key: str, sandbox_id: str | None, at: datetime) -> None:
        announced = self._announced.pop(key, None)
        since, ended = self.spending.end(key, at)
        self.spending.forget(key)
        if announced is None:
            return
        # Of one that was refused and never asked for again, the time is none.
        since = since or ended
        since = None if since == announced else since
        self._record(SandboxEvent.STOPPED, key, sandbox_id=sandbox_id, time=ended, since=since)

    def _record(self, event: SandboxEvent, key: str, **fields: Any) -> None:
        if self._ledger is not None:
            self._ledger(SandboxRow(job_id=self._entry.job_id, event=event, key=key, **fields))

    def taken(self, key: str, tags: Sequence[str]) -> None:
        """A warm sandbox is about to be used for the work that these tags name."""
        self._record(SandboxEvent.TAKEN, key, tags=tuple(tags))

    def record_elsewhere(self, row: SandboxRow) -> None:
        """Records what happened to a sandbox that a part of the job has on another machine."""
        self.registration.renew()
        if row.event is SandboxEvent.INTENT:
            self.spending.begin(row.key, row.time)
            self._announced[row.key] = row.time
        elif row.event is SandboxEvent.STOPPED:
            self._announced.pop(row.key, None)
            if row.since is not None:
                self.spending.pause(row.key)
                self.spending.begin(row.key, row.since)
            self.spending.end(row.key, row.time)
            self.spending.forget(row.key)
        if self._ledger is not None:
            self._ledger(row)

    def lose_elsewhere(self, prefix: str) -> None:
        """A machine is lost with its sandboxes, as far as is known; the keys of its launches begin with this."""
        for key in self.spending.open_keys(prefix):
            self.lost(key)

    def created(self, key: str, sandbox_id: str) -> None:
        self._record(SandboxEvent.CREATED, key, sandbox_id=sandbox_id)
        self.tell(SandboxCreated(sandbox_id))

    def stopped(self, stop: Stop) -> None:
        """A sandbox has ended; a sandbox that never had an id never existed, as far as is known.

        A ledger that cannot be written (the disk is full) does not end the cleanup: a reader that finds no end of a
        sandbox there asks the service, which does not list that sandbox any more.
        """
        try:
            self._write_end(stop.key, stop.sandbox_id or None, stop.ended_time or now())
        except ServiceError as error:
            self._warn_once(error)
        if stop.sandbox_id:
            self.tell_who_listens(SandboxStopped(stop.sandbox_id))

    def tell_who_listens(self, event: Event) -> None:
        """Emits an event during cleanup, which continues if the receiver fails: a pipe is closed, or a disk is full."""
        with suppress(OSError, ServiceError):
            self.tell(event)

    def _warn_once(self, error: ServiceError) -> None:
        if not self._has_warned:
            self._has_warned = True
            message = f"{error.message}: some stopped sandboxes are not recorded there"
            self.tell_who_listens(Warned(message, error.hint, error.fields))
