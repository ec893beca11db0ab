"""A job: one process that owns sandboxes, and leaves none behind.

The design decision: everything is written ahead. Who the job is goes into the registry before its first sandbox, and
what it is about to create into the ledger before each request, so a job that is killed at any moment has told where to
look. Stopping sandboxes is off the critical path, but it is awaited before the job ends, in whatever way it ends.

A launch is handed over at once and sent when there is room: within the user's bound, and within what the service
bears (see `pace.py`). A refusal for want of room is met here and puts the launch back; nobody else hears of it.
"""

from __future__ import annotations

import itertools
import math
import re
import secrets
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from sandrl.addresses import without_credentials
from sandrl.errors import CleanupError, InfrastructureError, SandrlError, UsageError
from sandrl.events import CleaningUp, CreationSlowed, Emit, Event, SandboxCreated, SandboxStopped, Warned, ignore
from sandrl.runs import WARM_TAG
from sandrl.runs.rows import OwnerRow
from sandrl.sandboxes.commands import Command, Outcome
from sandrl.sandboxes.connection import Connection
from sandrl.sandboxes.interrupt import Interrupt, Level
from sandrl.sandboxes.owner import Owner, current_owner
from sandrl.sandboxes.pace import Pace, delay_seconds
from sandrl.sandboxes.pool import Pool
from sandrl.sandboxes.registry import JobEntry, Registration
from sandrl.sandboxes.sdk import Launch, SdkSession, Stop
from sandrl.sandboxes.tags import encode_tag, job_tag, job_tags, owner_tag

CLEANUP_TIMEOUT_SECONDS = 25.0
"""How long the end of a job waits for its sandboxes; a second Ctrl-C promises 30 s in all."""

_JOB_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
# With this many stops in flight half are waited for: stopping thousands at once chokes a runtime.
_MAX_STOPS_IN_FLIGHT = 64
# The rest of the time is for those that could not be stopped one by one.
_SHARE_OF_STOPS = 0.7
_LEAST_SECONDS = 1.0
_MOST_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.25
# What a sandbox runs that nobody has a command for yet.
_NOTHING = Command(())


class Ledger(Protocol):
    """Where a job writes down what it does with sandboxes, each line on disk before the call returns."""

    def intend(self, key: str, tags: Sequence[str]) -> None:
        """A sandbox is about to be created."""

    def taken(self, key: str, tags: Sequence[str]) -> None:
        """A sandbox that stood ready is about to be used, for what these tags say."""

    def created(self, key: str, sandbox_id: str) -> None:
        """The sandbox exists and has this id."""

    def stopped(self, key: str, sandbox_id: str) -> None:
        """The sandbox is gone."""


class Withdrawn(Exception):
    """A launch was still waiting to be sent when the user asked to stop; it never ran."""


class NoLedger:
    """The ledger of a job that leaves no run directory: its tags, which are in the registry, find its sandboxes."""

    def intend(self, key: str, tags: Sequence[str]) -> None:
        """Writes nothing."""

    def taken(self, key: str, tags: Sequence[str]) -> None:
        """Writes nothing."""

    def created(self, key: str, sandbox_id: str) -> None:
        """Writes nothing."""

    def stopped(self, key: str, sandbox_id: str) -> None:
        """Writes nothing."""


def new_job_id() -> str:
    """A fresh job id: `job-` and eight hex digits."""
    return f"job-{secrets.token_hex(4)}"


def checked_job_id(text: str) -> str:
    """A job id the user gave.

    Raises:
        UsageError: If it cannot be a tag as it is.
    """
    if not _JOB_ID.fullmatch(text):
        raise UsageError(
            f"--job-id {text!r} cannot be a tag",
            hint="use up to 63 letters, digits, '.', '_' and '-', a letter or digit first and last",
        )
    return text


class Job:
    """Owns sandboxes from here to the end of the `with` block.

    Args:
        connection: Where sandboxes come from.
        job_id: Tag of all sandboxes of the job.
        tags: The user's and the workflow's tags, as text.
        ledger: Where to write down what happens.
        max_lifetime_seconds: After this the service ends a sandbox, whatever happened to the job.
        command: What the registry of jobs calls the work.
        run_dir: Where the ledger is, for the registry; None without one.
        max_sandboxes: How many to hold at once, those included that are being created or stopped; None for no bound.
        emit: Told what happens.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        job_id: str,
        max_lifetime_seconds: float,
        tags: Sequence[str] = (),
        ledger: Ledger | None = None,
        command: str = "python",
        run_dir: Path | None = None,
        max_sandboxes: int | None = None,
        emit: Emit = ignore,
    ) -> None:
        self.id = job_id
        self.connection = connection
        self.owner: Owner = current_owner()
        self.tags = job_tags(job_id, self.owner.hash, tags)
        # Ranks of a distributed job share its id, and none stops the sandboxes of another.
        self._own_tags = [job_tag(job_id), owner_tag(self.owner.hash)]
        self.max_sandboxes = max_sandboxes
        self.unstopped: tuple[str, ...] = ()
        self._pace = Pace(max_sandboxes)
        self._ledger: Ledger = ledger or NoLedger()
        self._emit = emit
        self._keys = itertools.count(1)
        # In flight is what was handed over and not collected; some of it waits to be sent.
        self._in_flight: dict[str, Launch] = {}
        self._unsent: deque[Launch] = deque()
        self._kept: dict[str, Launch] = {}
        self._stops: list[Stop] = []
        self._failed_stops: list[Stop] = []
        self._lost_track = False
        self._pool = Pool(max_lifetime_seconds)
        self._registration = Registration(
            JobEntry(
                job_id=job_id,
                owner=OwnerRow.model_validate(self.owner),
                owner_hash=self.owner.hash,
                command=command,
                runtime=connection.kind.value,
                address=without_credentials(connection.base_url),
                tags=self.tags,
                run_dir=None if run_dir is None else str(run_dir),
                max_lifetime_seconds=max_lifetime_seconds,
            ),
            connection.state_dir,
            emit,
        )
        self._session = SdkSession(connection, tags=self.tags, max_lifetime_seconds=max_lifetime_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def in_flight(self) -> int:
        """How many commands are on their way."""
        return len(self._in_flight)

    def warm_up(self, count: int, *, tags: Sequence[str] = (), timeout_seconds: float = 0.0) -> None:
        """Begins to create fresh sandboxes for launches to come, until there are so many or no room is left.

        Args:
            count: How many to have ready. A launch takes one that is, with its tags instead of its own.
            tags: Tags of these sandboxes beyond the job's, as text.
            timeout_seconds: The longest a command to come may take; those with too little life left for it are stopped.
        """
        unfit = self._pool.drop_unfit(timeout_seconds, self.connection.base_url)
        self._give_up(unfit)
        # Where the service has just refused some, the launches to come will find out when it has room again.
        if any(spare.has_failed_to_start for spare in unfit) or self._pace.seconds_left(time.monotonic()):
            return
        encoded = tuple(encode_tag(tag) for tag in (WARM_TAG, *tags))
        while len(self._pool) < count and self._pace.has_room(self._held):
            spare = Launch(f"{next(self._keys):06d}", _NOTHING, encoded)
            self._registration.renew()
            self._ledger.intend(spare.key, (*self.tags, *spare.tags))
            self._session.prepare(spare)
            self._pool.add(spare)

    def _give_up(self, spares: Sequence[Launch]) -> None:
        """Begins to stop sandboxes that nobody used."""
        for spare in spares:
            self._lost_track = self._lost_track or spare.sandbox_id is None
            self._stops.append(self._session.stop(spare))

    def launch(
        self, command: Command, *, tags: Sequence[str] = (), within: Launch | None = None, may_be_warm: bool = False
    ) -> Launch:
        """Runs a command in a fresh sandbox, without waiting.

        Args:
            command: What to run.
            tags: Tags of this sandbox beyond the job's, as text.
            within: A launch that was collected and kept, in whose sandbox to run the command instead.
            may_be_warm: Whether a sandbox from `warm_up` will do; it is as fresh, but has other tags.
        """
        if within is not None:
            launch = Launch(within.key, command)
            self._in_flight[launch.key] = launch
            self._session.send(launch, within)
            return launch
        launch = Launch(f"{next(self._keys):06d}", command, tuple(encode_tag(tag) for tag in tags), may_be_warm)
        self._in_flight[launch.key] = launch
        self._unsent.append(launch)
        self._send_more()
        return launch

    def _send_more(self) -> None:
        """Sends what waits, as far as there is room."""
        if not self._unsent:
            return
        if not self._pace.has_room(self._held):
            self._settle([stop for stop in self._stops if stop.has_ended])
        while self._unsent:
            launch = self._unsent[0]
            if not self._take_spare(launch):
                if self._pace.seconds_left(time.monotonic()) or not self._pace.has_room(self._held):
                    break
                if not launch.base_url:
                    self._registration.renew()
                    self._ledger.intend(launch.key, (*self.tags, *launch.tags))
            self._session.send(launch)
            self._unsent.popleft()
        if self._unsent:
            self._session.watch(self._stops)

    def _take_spare(self, launch: Launch) -> bool:
        """Whether a launch that was never sent found a sandbox that stands ready."""
        if launch.base_url or not launch.may_be_warm:
            return False
        spare = self._pool.take(launch.command.timeout_seconds, self.connection.base_url)
        if spare is None:
            return False
        self._ledger.taken(spare.key, launch.tags)
        del self._in_flight[launch.key]
        launch.key, launch.base_url, launch.sandbox = spare.key, spare.base_url, spare.sandbox
        self._in_flight[launch.key] = launch
        return True

    @property
    def _held(self) -> int:
        """How many sandboxes there are, or may be, because they are being created or stopped."""
        in_use = len(self._kept.keys() | self._in_flight.keys()) - len(self._unsent)
        return in_use + len(self._pool) + len(self._stops)

    def wait_any(
        self, interrupt: Interrupt | None = None, seen: Level = Level.NONE, timeout_seconds: float | None = None
    ) -> list[Launch]:
        """Waits until at least one launch has ended, the user asks to stop, the waiter is woken, or the time is over.

        Args:
            interrupt: The user's wish to stop; waking it ends the wait.
            seen: How far the caller has obeyed it already; only more than that ends the wait.
            timeout_seconds: How long to wait at most, also when nothing is in flight; None until something happens.

        Returns:
            Those that have ended, each once; none if something else came first, or there is nothing to wait for.
        """
        if not self._in_flight and timeout_seconds is None:
            return []
        interrupt = interrupt or Interrupt()
        ends_at = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            if seen is not Level.NONE and self._unsent:
                withdrawn = list(self._unsent)
                self._unsent.clear()
                return withdrawn
            self._send_more()
            now = time.monotonic()
            pause = self._pace.seconds_left(now) if self._unsent else 0.0
            until = min(ends_at, now + pause) if pause else ends_at
            patience = None if until == math.inf else max(until - now, 0.0)
            ended = self._session.wait_any(interrupt, seen, patience)
            landed = [launch for launch in ended if not self._put_back(launch)]
            woken = interrupt.look_around()
            if landed or woken or interrupt.level is not seen or time.monotonic() >= ends_at:
                return landed

    def _put_back(self, launch: Launch) -> bool:
        """Whether a launch found no room, and waits to be sent again."""
        refusal = self._session.refusal(launch)
        if refusal is None or launch.key not in self._in_flight:
            return False
        launch.process = None
        self._unsent.appendleft(launch)
        # It may exist all the same, if the answer is not the whole story.
        self._lost_track = True
        sent = (each for each in self._in_flight.values() if each.sandbox_id is not None)
        pause = self._pace.refuse(
            asked_at=launch.launched_at,
            now=time.monotonic(),
            exists=len({each.key for each in sent} | self._kept.keys()) + len(self._stops),
            hint_seconds=refusal.hint_seconds,
        )
        if pause is not None:
            self._emit(CreationSlowed(refusal.reason, pause))
        return True

    def collect(self, launch: Launch, *, keep: bool = False) -> Outcome:
        """How an ended launch ended; its sandbox begins to stop, unless it is to be kept.

        Args:
            launch: What has ended.
            keep: Leave the sandbox for another launch `within` it, until it is released.

        Raises:
            InfrastructureError: If the sandbox failed, not the command.
            AuthenticationError: If the service refuses the credentials.
            UsageError: If the service refuses the request itself.
            Withdrawn: If the user asked to stop before it was sent.
        """
        self._in_flight.pop(launch.key, None)
        if launch.process is None:
            raise Withdrawn
        if launch.sandbox_id is None:
            # The request may have reached the service although its answer did not reach us.
            self._lost_track = True
        else:
            if launch.key not in self._kept:
                self._pace.accept()
                self._ledger.created(launch.key, launch.sandbox_id)
                self._emit(SandboxCreated(launch.sandbox_id))
            self._kept[launch.key] = launch
            if not keep:
                self.release(launch)
        return self._session.collect(launch)

    def release(self, launch: Launch) -> None:
        """Begins to stop the sandbox of a launch that was kept; one that is stopping already is left alone."""
        if self._kept.pop(launch.key, None) is not None:
            self._stops.append(self._session.stop(launch))
        if len(self._stops) >= _MAX_STOPS_IN_FLIGHT:
            self._collect_stops(at_least=_MAX_STOPS_IN_FLIGHT // 2)

    def reconnect(self, failed: Launch) -> bool:
        """Looks for the runtime again after a launch failed to reach it; a local one that ended is started anew.

        Returns:
            Whether what is launched from here on goes somewhere else than the failed one did.
        """
        if failed.base_url != self.connection.base_url:
            return True
        if self.connection.renew is None:
            return False
        try:
            found = self.connection.renew()
        except SandrlError as error:
            self._emit(Warned(f"the runtime cannot be reached again: {error.message}", hint=error.hint))
            return False
        if found.base_url == self.connection.base_url:
            return False
        self._emit(Warned(f"the local runtime ended; the job goes on with another one at {found.base_url}"))
        self.connection = found
        self._session.direct_to(found)
        self._registration.move(found.base_url)
        return True

    def cancel(self) -> None:
        """Cancels everything in flight; the sandboxes are gone when the job is closed."""
        self._unsent.clear()
        for launch in self._in_flight.values():
            launch.cancel()

    def close(self, timeout_seconds: float = CLEANUP_TIMEOUT_SECONDS) -> None:
        """Stops every sandbox of the job and waits until they are gone, for so long in all.

        What could not be stopped is in `unstopped`, and told with the command that ends it; it ends at the latest when
        its lifetime is over.
        """
        ends_at = time.monotonic() + timeout_seconds
        self.cancel()
        for launch in (self._kept | self._in_flight).values():
            if launch.process is not None:
                self._lost_track = self._lost_track or launch.sandbox_id is None
                self._stops.append(self._session.stop(launch))
        self._give_up(self._pool.clear())
        self._kept.clear()
        self._in_flight.clear()
        if self._stops:
            self._tell(CleaningUp(len(self._stops)))
        self._collect_stops(at_least=len(self._stops), timeout_seconds=timeout_seconds * _SHARE_OF_STOPS)
        left = [*self._failed_stops, *self._stops]
        self._failed_stops.clear()
        self._stops.clear()
        reason = ""
        try:
            if left or self._lost_track:
                self._stop_by_tag(ends_at)
                for stop in left:
                    self._note_stopped(stop)
                left.clear()
            self._session.close(max(ends_at - time.monotonic(), _LEAST_SECONDS))
        except SandrlError as error:
            reason = error.message
            self.unstopped = (*(stop.sandbox_id or stop.key for stop in left), f"tag {self.id}")
        cleanup_error = self.cleanup_error()
        if cleanup_error is None:
            self._registration.end()
        else:
            self._tell(Warned(f"{cleanup_error.message}: {reason}", hint=cleanup_error.hint))

    def _stop_by_tag(self, ends_at: float) -> None:
        """Stops whatever this process has made for the job; tried again, because this is the last done about it."""
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

    def _tell(self, event: Event) -> None:
        """Tells something while cleaning up, which goes on where nobody can be told: a pipe or a terminal is gone."""
        with suppress(OSError):
            self._emit(event)

    def cleanup_error(self) -> CleanupError | None:
        """The error to end with if the closed job left sandboxes behind."""
        if not self.unstopped:
            return None
        return CleanupError(
            f"{len(self.unstopped)} sandboxes of {self.id} could not be stopped",
            hint=f"sandrl sandboxes cleanup --tag {self.id}",
        )

    def _collect_stops(self, *, at_least: int, timeout_seconds: float | None = None) -> None:
        """Waits for some of the stops in flight, and writes down those that have ended."""
        self._settle(self._session.wait_stops(self._stops, at_least=at_least, timeout_seconds=timeout_seconds))

    def _settle(self, ended: Sequence[Stop]) -> None:
        for stop in ended:
            self._stops.remove(stop)
            # A local runtime takes its sandboxes along when it ends.
            if self._session.stop_error(stop) is not None and stop.base_url == self.connection.base_url:
                self._failed_stops.append(stop)
            else:
                self._note_stopped(stop)

    def _note_stopped(self, stop: Stop) -> None:
        if stop.sandbox_id:
            self._ledger.stopped(stop.key, stop.sandbox_id)
            self._tell(SandboxStopped(stop.sandbox_id))
