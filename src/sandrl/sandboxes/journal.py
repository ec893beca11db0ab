"""A job's records of its sandboxes: registry, ledger and events.

Everything is written ahead. The job is entered into the registry before its first sandbox, and each sandbox into the
ledger before its request, so if a job is killed at any time, its sandboxes can be found.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Protocol

from sandrl.errors import ServiceError
from sandrl.events import Emit, Event, SandboxCreated, SandboxStopped, Warned
from sandrl.runs.rows import OwnerRow, now
from sandrl.sandboxes.owner import Owner
from sandrl.sandboxes.registry import Registration
from sandrl.sandboxes.session import Launch, Stop
from sandrl.sandboxes.spending import Spending


class Ledger(Protocol):
    """Where a job writes down what it does with sandboxes, each line on disk before the call returns."""

    def intend(self, key: str, tags: Sequence[str], owner: OwnerRow | None = None, at: datetime | None = None) -> None:
        """A sandbox is about to be created at this time, which another process than this one may own."""

    def taken(self, key: str, tags: Sequence[str]) -> None:
        """A sandbox that stood ready is about to be used, for what these tags say."""

    def created(self, key: str, sandbox_id: str) -> None:
        """The sandbox exists and has this id."""

    def stopped(
        self, key: str, sandbox_id: str | None, at: datetime | None = None, since: datetime | None = None
    ) -> None:
        """The sandbox is gone since some time, or there never was one.

        Args:
            key: Names the launch.
            sandbox_id: Its id; None if nobody knows it.
            at: When it ended.
            since: When it was asked for, if that was later than the line that announces it.
        """


class NoLedger:
    """The ledger of a job that leaves no run directory: its tags, which are in the registry, find its sandboxes."""

    def intend(self, key: str, tags: Sequence[str], owner: OwnerRow | None = None, at: datetime | None = None) -> None:
        """Writes nothing."""

    def taken(self, key: str, tags: Sequence[str]) -> None:
        """Writes nothing."""

    def created(self, key: str, sandbox_id: str) -> None:
        """Writes nothing."""

    def stopped(
        self, key: str, sandbox_id: str | None, at: datetime | None = None, since: datetime | None = None
    ) -> None:
        """Writes nothing."""


class Journal:
    """A job's entry in the registry, its ledger, and those who listen to it.

    Args:
        registration: Its entry.
        ledger: Where each sandbox is written down.
        tags: The tags of all sandboxes of the job, encoded.
        emit: Told what happens.
        spending: Counts for how long there are sandboxes.
    """

    def __init__(
        self, registration: Registration, ledger: Ledger, tags: Sequence[str], emit: Emit, spending: Spending
    ) -> None:
        self.tell = emit
        self.spending = spending
        self._announced: dict[str, datetime] = {}
        self._registration = registration
        self._ledger = ledger
        self._tags = tuple(tags)
        self._has_warned = False

    def intend(self, launch: Launch) -> None:
        """A sandbox is about to be asked for."""
        self._registration.renew()
        at = now()
        self.spending.begin(launch.key, at)
        self._announced[launch.key] = at
        self._ledger.intend(launch.key, (*self._tags, *launch.tags), at=at)

    def refused(self, launch: Launch) -> None:
        """A sandbox that was asked for was refused; it may be asked for again."""
        self.spending.pause(launch.key)

    def intend_again(self, launch: Launch) -> None:
        """A sandbox is about to be asked for again."""
        self.spending.begin(launch.key, now())

    def lost(self, key: str) -> None:
        """A sandbox never came to be, as far as anybody knows."""
        self._write_end(key, None, now())

    def ended(self, key: str, at: datetime) -> None:
        """A sandbox is gone since some time, which is written down later; on any thread."""
        self.spending.end(key, at)

    def _write_end(self, key: str, sandbox_id: str | None, at: datetime) -> None:
        announced = self._announced.pop(key, None)
        since, ended = self.spending.end(key, at)
        self.spending.forget(key)
        if announced is None:
            return
        # Of one that was refused and never asked for again, the time is none.
        since = since or ended
        self._ledger.stopped(key, sandbox_id, ended, None if since == announced else since)

    def taken(self, spare: Launch, tags: Sequence[str]) -> None:
        """A sandbox that stood ready is about to be used, for what these tags say."""
        self._ledger.taken(spare.key, tags)

    def note_elsewhere(
        self,
        event: str,
        key: str,
        about: Sequence[str] | str | None,
        owner: Owner | None,
        at: datetime,
        since: datetime | None,
    ) -> None:
        """What happens to a sandbox that a part of the job has on another machine, see `Job.note_elsewhere`."""
        self._registration.renew()
        if event == "intend":
            self.spending.begin(key, at)
            self._announced[key] = at
            self._ledger.intend(key, about or (), None if owner is None else OwnerRow.model_validate(owner), at=at)
        elif event == "stopped":
            self._announced.pop(key, None)
            if since is not None:
                self.spending.pause(key)
                self.spending.begin(key, since)
            self.spending.end(key, at)
            self.spending.forget(key)
            self._ledger.stopped(key, None if about is None else str(about), at, since)
        else:
            getattr(self._ledger, event)(key, about)

    def lose_elsewhere(self, prefix: str) -> None:
        """A machine is lost with the sandboxes that a part of the job had there."""
        for key in self.spending.open_keys(prefix):
            self.lost(key)

    def created(self, key: str, sandbox_id: str) -> None:
        """A sandbox exists and has this id."""
        self._ledger.created(key, sandbox_id)
        self.tell(SandboxCreated(sandbox_id))

    def stopped(self, stop: Stop) -> None:
        """A sandbox is gone; one that never had an id was never there, as far as anybody knows.

        A ledger that cannot be written (the disk is full) ends no cleaning up: whoever reads there of a sandbox that
        was not stopped asks the service, which does not know it any more.
        """
        try:
            self._write_end(stop.key, stop.sandbox_id or None, stop.ended_time or now())
        except ServiceError as error:
            self._warn_once(error)
        if stop.sandbox_id:
            self.tell_who_listens(SandboxStopped(stop.sandbox_id))

    def tell_who_listens(self, event: Event) -> None:
        """Tells something while cleaning up, which goes on where nobody can be told: a pipe is gone, or a disk full."""
        with suppress(OSError, ServiceError):
            self.tell(event)

    def _warn_once(self, error: ServiceError) -> None:
        if not self._has_warned:
            self._has_warned = True
            message = f"{error.message}: not every sandbox that was stopped is noted there"
            self.tell_who_listens(Warned(message, error.hint, error.fields))

    def move(self, address: str) -> None:
        """Sandboxes are somewhere else from here on."""
        self._registration.move(address)

    def end(self) -> None:
        """Every sandbox is gone."""
        self._registration.end()
