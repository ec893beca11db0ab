"""A job's records of its sandboxes: registry, ledger and events.

Everything is written ahead. The job is entered into the registry before its first sandbox, and each sandbox into the
ledger before its request, so if a job is killed at any time, its sandboxes can be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
    """Records what a job does with sandboxes; each line is on disk before the call returns."""

    def intend(self, key: str, tags: Sequence[str], owner: OwnerRow | None = None, at: datetime | None = None) -> None:
        """A sandbox is about to be created at this time; its owner may be another process."""
        return

    def taken(self, key: str, tags: Sequence[str]) -> None:
        """A warm sandbox is about to be used for the work that these tags name."""
        return

    def created(self, key: str, sandbox_id: str) -> None:
        """The sandbox exists and has this id."""
        return

    def stopped(
        self, key: str, sandbox_id: str | None, at: datetime | None = None, since: datetime | None = None
    ) -> None:
        """The sandbox has ended, or never existed.

        Args:
            since: When it was requested, if that was later than the line that announces it.
        """
        return


class NoLedger(Ledger):
    """The ledger of a job without a run directory: its sandboxes are found by its tags, which are in the registry."""


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A line of the ledger of a part of a job, on its way to the machine that has the ledger.

    Attributes:
        event: The method of `Ledger` that writes it.
        key: Names the launch among those of all machines.
        about: The tags, or the id of the sandbox.
    """

    event: str
    key: str
    about: tuple[str, ...] | str | None
    at: datetime
    since: datetime | None = None


class SentLedger:
    """The ledger of a part of a job: its lines are sent to the machine that has the ledger; see `Ledger`."""

    def __init__(self, send: Callable[[LedgerLine], None], machine: str) -> None:
        self._send = send
        self._machine = machine

    def intend(self, key: str, tags: Sequence[str], owner: OwnerRow | None = None, at: datetime | None = None) -> None:
        self._send(LedgerLine("intend", f"{self._machine}-{key}", tuple(tags), at or now()))

    def taken(self, key: str, tags: Sequence[str]) -> None:
        self._send(LedgerLine("taken", f"{self._machine}-{key}", tuple(tags), now()))

    def created(self, key: str, sandbox_id: str) -> None:
        self._send(LedgerLine("created", f"{self._machine}-{key}", sandbox_id, now()))

    def stopped(
        self, key: str, sandbox_id: str | None, at: datetime | None = None, since: datetime | None = None
    ) -> None:
        self._send(LedgerLine("stopped", f"{self._machine}-{key}", sandbox_id, at or now(), since))


class Journal:
    """A job's entry in the registry, its ledger, the time that it uses, and the receiver of its events."""

    def __init__(
        self, registration: Registration, ledger: Ledger, tags: Sequence[str], emit: Emit, spending: Spending
    ) -> None:
        self.tell = emit
        self.spending = spending
        self._announced: dict[str, datetime] = {}
        self.registration = registration
        self.ledger = ledger
        self._tags = tuple(tags)
        self._has_warned = False

    def intend(self, launch: Launch) -> None:
        self.registration.renew()
        at = now()
        self.spending.begin(launch.key, at)
        self._announced[launch.key] = at
        self.ledger.intend(launch.key, (*self._tags, *launch.tags), at=at)

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
        self.ledger.stopped(key, sandbox_id, ended, None if since == announced else since)

    def note_elsewhere(self, line: LedgerLine, owner: Owner) -> None:
        """Records what happened to a sandbox that a part of the job has on another machine, of this owner."""
        self.registration.renew()
        if line.event == "intend":
            self.spending.begin(line.key, line.at)
            self._announced[line.key] = line.at
            self.ledger.intend(line.key, line.about or (), OwnerRow.model_validate(owner), at=line.at)
        elif line.event == "stopped":
            self._announced.pop(line.key, None)
            if line.since is not None:
                self.spending.pause(line.key)
                self.spending.begin(line.key, line.since)
            self.spending.end(line.key, line.at)
            self.spending.forget(line.key)
            self.ledger.stopped(line.key, None if line.about is None else str(line.about), line.at, line.since)
        else:
            getattr(self.ledger, line.event)(line.key, line.about)

    def lose_elsewhere(self, prefix: str) -> None:
        """A machine is lost with its sandboxes, as far as is known; the keys of its launches begin with this."""
        for key in self.spending.open_keys(prefix):
            self.lost(key)

    def created(self, key: str, sandbox_id: str) -> None:
        self.ledger.created(key, sandbox_id)
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
