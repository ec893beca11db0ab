"""A job: one process that owns sandboxes, and leaves none behind.

A job connects three parts that keep one promise each. The dispatch (`dispatch.py`) holds no more sandboxes than it may,
the journal (`journal.py`) records each sandbox before it exists, and the stopping (`stopping.py`) is awaited before
the job ends, also after an error.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Protocol

from sandrl import forks
from sandrl.addresses import without_credentials
from sandrl.closing import Closing
from sandrl.deadlines import in_background
from sandrl.errors import (
    BuildError,
    CleanupError,
    ForkedProcessError,
    InfrastructureError,
    NoImageError,
    SandrlError,
    UsageError,
)
from sandrl.events import BudgetReached, CleaningUp, Emit, Event, SandboxesHeld, Warned, ignore
from sandrl.runs.rows import ConnectionRow, OwnerRow
from sandrl.sandboxes.busy_time import BusyTime
from sandrl.sandboxes.commands import Command, CommandOutcome
from sandrl.sandboxes.dispatch import Dispatch
from sandrl.sandboxes.interrupt import Interrupt, Level
from sandrl.sandboxes.journal import Journal, Ledger
from sandrl.sandboxes.owner import Owner, current_owner
from sandrl.sandboxes.providers.protocol import Connection
from sandrl.sandboxes.registry import JobEntry, Registration
from sandrl.sandboxes.session import BEAT_SECONDS, Launch, Session
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.sandboxes.spending import Allowance, Spending
from sandrl.sandboxes.stopping import Stopping
from sandrl.sandboxes.tags import encode_tag, job_tag, job_tags, owner_tag
from sandrl.sandboxes.traffic import Traffic
from sandrl.sandboxes.workers import CellLimits, Workers

CLEANUP_TIMEOUT_SECONDS = 25.0
"""How long the end of a job waits for its sandboxes; a second Ctrl-C promises 30 s in all."""

_IMAGES_AT_ONCE = 4
_ENDING_SECONDS = 2.0
_ENDING_PAUSE_SECONDS = 0.05


class RemotePart(Protocol):
    """The part of a job that is on other machines."""

    def close(self, timeout_seconds: float) -> tuple[str, ...]:
        """Ends its sandboxes; returns the ids, or the nodes, of those that could not be ended."""


class Withdrawn(Exception):
    """A launch was still waiting to be sent when the user asked to stop; it never ran."""


class Job(Closing):
    """Owns sandboxes until the end of the `with` block.

    Attributes:
        images: The images that problems named and the runtime has, by name as it has them, with their digests.
        expected_images: How it must have them, where that matters.

    Args:
        tags: The user's and the workflow's tags, as text.
        max_lifetime_seconds: After this the service ends a sandbox, whatever happened to the job.
        max_sandboxes: How many to hold at once, including those that are being created or stopped; None for no limit.
        has_cells: Whether commands that can run in a cell of a worker sandbox do so, if cells are possible.
        fresh_networks: Whether each cell has a network namespace that no other had.
        record_connection: Records what sandboxes do in the network.
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
        has_cells: bool = False,
        fresh_networks: bool = False,
        record_connection: Callable[[ConnectionRow], None] | None = None,
        emit: Emit = ignore,
        allowance: Allowance | None = None,
        interrupt: Interrupt | None = None,
    ) -> None:
        self.id = job_id
        self._interrupt = interrupt
        self.spending = Spending(
            allowance or Allowance(), longest_seconds=max_lifetime_seconds, on_reached=self._reach_budget
        )
        self.connection = connection
        self.owner: Owner = current_owner()
        self.tags = job_tags(job_id, self.owner.hash, tags)
        self.given_tags = tuple(tags)
        self.command = command
        self.run_dir = run_dir
        self.max_sandboxes = max_sandboxes
        self.max_lifetime_seconds = max_lifetime_seconds
        self.has_cells = has_cells
        self.fresh_networks = fresh_networks
        self.unstopped: tuple[str, ...] = ()
        self.images: dict[str, str] = {}
        self.expected_images: Mapping[str, str] = {}
        self._looked_at = 0.0
        self._is_inherited = False
        entry = JobEntry(
            job_id=job_id,
            owner=OwnerRow.model_validate(self.owner),
            owner_hash=self.owner.hash,
            command=command,
            runtime=str(connection.kind),
            address=without_credentials(connection.address),
            tags=self.tags,
            run_dir=None if run_dir is None else str(run_dir),
            max_lifetime_seconds=max_lifetime_seconds,
        )
        registration = Registration(entry, connection.state_dir, emit)
        self._session = Session(connection, tags=self.tags, max_lifetime_seconds=max_lifetime_seconds)
        self.journal = Journal(entry, registration, ledger, emit, self.spending)
        # Ranks of a distributed job share its id, and none stops the sandboxes of another.
        self._stopping = Stopping(self._session, self.journal, [job_tag(job_id), owner_tag(self.owner.hash)])
        self._dispatch = Dispatch(
            self._session,
            self.journal,
            self._stopping,
            max_sandboxes=max_sandboxes,
            max_lifetime_seconds=max_lifetime_seconds,
        )
        self._traffic = Traffic(job_id, [job_tag(job_id), owner_tag(self.owner.hash)], record_connection)
        self._workers: Workers | None = None
        self._lock = threading.Lock()
        self._with_image: dict[str, Future[Connection]] = {}
        self._emit = emit
        self._heard: SimpleQueue[Event] = SimpleQueue()
        self._warned: set[str] = set()
        self._finding = threading.Semaphore(_IMAGES_AT_ONCE)
        self.remote_part: RemotePart | None = None
        self._was_rung = self._is_closed = False
        self._busy = BusyTime()
        forks.watch(self)

    def after_fork(self) -> None:
        """Leaves the job to the parent: in this process it starts nothing, stops nothing and writes nothing."""
        self._is_inherited = True

    def ring(self) -> None:
        """Ends the current wait for the job, or the next one, because of an event elsewhere; on any thread."""
        self._was_rung = True
        self._session.ring()

    @property
    def exhausted(self) -> str:
        """The message with which the work ends if the budget is used up; empty if it is not."""
        return self.spending.text if self.spending.level is not Level.NONE else ""

    def _reach_budget(self, level: Level) -> None:
        held = self.spending.held
        self.tell(BudgetReached(self.spending.allowance.budget, held.seconds, level is Level.CANCEL))
        if self._interrupt is not None:
            self._interrupt.exhaust(level)

    def tell_held(self) -> None:
        """Emits how much sandbox time was used since the last such event."""
        seconds = self.spending.take()
        if seconds:
            self.journal.tell_who_listens(SandboxesHeld(seconds))

    def tell(self, event: Event) -> None:
        self.journal.tell(event)

    @property
    def busy_seconds(self) -> float | None:
        """For how long commands have been under way so far; None if they run on other machines."""
        return None if self.remote_part is not None else self._busy.seconds

    @property
    def in_flight(self) -> int:
        return len(self._dispatch) + (0 if self._workers is None else len(self._workers))

    def window(self, concurrency: int | None) -> int:
        """How many commands to have under way at once.

        Args:
            concurrency: How many may run at once; the number that the runtime recommends unless given.
        """
        if self.has_cells and self._workers is None:
            self._workers = self._make_workers(concurrency)
        if self._workers is not None and self._workers.refusal is None:
            return self._workers.window
        return self.fresh_window(concurrency)

    def fresh_window(self, concurrency: int | None) -> int:
        """The same for commands that each have their own sandbox."""
        wanted = concurrency or self.connection.suggested_concurrency
        return min(wanted, self.max_sandboxes or wanted)

    def _make_workers(self, concurrency: int | None) -> Workers:
        def on_refusal(why: str) -> None:
            self.journal.tell(Warned(f"cells are not possible here ({why}): each completion has its own sandbox"))

        return Workers(
            self._dispatch,
            ring=self._session.ring,
            on_refusal=on_refusal,
            max_lifetime_seconds=self.max_lifetime_seconds,
            max_sandboxes=self.max_sandboxes,
            cell_limits=CellLimits(self.connection.memory_bytes, concurrency, self.fresh_networks),
            directory=self.connection.state_dir if self.connection.is_local else None,
        )

    def warm_up(self, count: int, *, tags: Sequence[str] = (), timeout_seconds: float = 0.0) -> None:
        """Begins to create warm sandboxes for later launches, until `count` are ready or no room is left.

        Args:
            count: How many to have ready. A launch that takes one has its tags instead of the launch's own.
            timeout_seconds: The longest timeout of later commands; warm sandboxes with less lifetime left are stopped.
        """
        self._refuse_if_inherited()
        self._look_at_runtime()
        if self._workers is not None and self._workers.refusal is None:
            return  # workers stay
        if self.remote_part is not None:
            return  # what is launched here is not what others judge
        count = self.spending.limit(count)
        if count:
            self._dispatch.warm_up(count, tags, timeout_seconds)

    def launch(
        self,
        command: Command,
        *,
        tags: Sequence[str] = (),
        within: Launch | None = None,
        may_be_warm: bool = False,
        alone: bool = True,
        traced: Sequence[str] = (),
        shape: Shape = USUAL,
    ) -> Launch:
        """Runs a command in a fresh sandbox, or in a cell, without waiting.

        Args:
            within: A collected launch whose sandbox was kept; the command runs in that sandbox instead.
            may_be_warm: Whether it may use a sandbox from `warm_up`, which is as fresh but has other tags.
            alone: Whether it must have its own sandbox; if not, it may run in a cell.
            traced: The tags that are also recorded for the worker sandbox in whose cell it runs.
            shape: What its sandbox is; its image is that of the connection that `with_image` returned.

        Raises:
            ForkedProcessError: If the job was made by the process from which this one was forked.
        """
        self._refuse_if_inherited()
        if within is not None:
            return self._begun(self._dispatch.send_within(command, within))
        self._look_at_runtime()
        workers = self._workers
        cell = command.cell if shape.is_usual and not alone else None
        if cell is not None and workers is not None and workers.takes(cell, command.timeout_seconds, shape.image):
            encoded = tuple(map(encode_tag, traced))
            launch = Launch(self._dispatch.new_key(), command, encoded, in_cell=True, shape=shape)
            workers.hand_over(launch)
            return self._begun(launch)
        return self._begun(self._dispatch.hand_over(command, tags, may_be_warm=may_be_warm, shape=shape))

    def _begun(self, launch: Launch) -> Launch:
        self._busy.begin(launch)
        return launch

    def with_image(self, image: str) -> Future[Connection]:
        """The runtime with another image, once it has it; for each image one future, which is never cancelled.

        It fails with a `NoImageError` if the runtime cannot have the image.
        """
        with self._lock:
            known = self._with_image.get(image)
            if known is None:
                known = self._with_image[image] = in_background(lambda: self._find_image(image))
                known.add_done_callback(lambda _: self.ring())
        return known

    def _find_image(self, image: str) -> Connection:
        with self._finding:
            try:
                found = self.connection.with_image(image, self._heard.put)
            except SandrlError as error:
                about = error.message if error.message.startswith(image) else f"{image}: {error.message}"
                is_final = isinstance(error, UsageError | BuildError)
                raise NoImageError(f"image {about}", is_final=is_final, hint=error.hint) from error
        expected = self.expected_images.get(image, found.image)
        if found.image != expected:
            message = f"image {image} is {found.image} here, and the lock of the tasks has {expected}"
            raise InfrastructureError(message, hint="pull that image, or leave out the lock", fields=("lock",))
        self.images[image] = found.image
        return found

    def wait_any(
        self, interrupt: Interrupt | None = None, seen: Level = Level.NONE, timeout_seconds: float | None = None
    ) -> list[Launch]:
        """Waits until at least one launch has ended, the user asks to stop, the waiter is woken, or the time is over.

        Args:
            seen: The level that the caller has already handled; only a higher level ends the wait.
            timeout_seconds: How long to wait at most, also when nothing is in flight; None until something happens.

        Returns:
            The launches that have ended, each once; empty if something else ended the wait, or nothing is in flight.

        Raises:
            ForkedProcessError: If the job was made by the process from which this one was forked.
        """
        self._refuse_if_inherited()
        if not self.in_flight and timeout_seconds is None:
            return []
        interrupt = interrupt or Interrupt()
        ends_at = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            if seen is not Level.NONE and (withdrawn := self._withdrawn()):
                self._busy.end(withdrawn)
                return withdrawn
            self._look_at_runtime()
            self._traffic.look(self.connection, self.journal.tell_who_listens)
            pause = self._send_more()
            now = time.monotonic()
            until = min(ends_at, now + pause) if pause else ends_at
            if self.spending.is_bounded:
                self.spending.look()
                until = min(until, now + self.spending.seconds_to_look())
            ended = self._session.wait_any(interrupt, seen, min(max(until - now, 0.0), BEAT_SECONDS))
            landed = [launch for launch in ended if not self._dispatch.put_back(launch)]
            while not self._heard.empty():
                self._tell_once(self._heard.get())
            if self._workers is not None:
                landed = self._receive_from(self._workers, landed)
            woken = interrupt.look_around()
            if self._was_rung:
                # Only then: one that rings from here on must be seen in the next turn.
                self._was_rung, woken = False, True
            if landed or woken or interrupt.level is not seen or time.monotonic() >= ends_at:
                self._busy.end(landed)
                return landed

    def _tell_once(self, event: Event) -> None:
        # Images of one job have the same settings of this machine, which each warns of.
        if not isinstance(event, Warned) or event.message not in self._warned:
            self._emit(event)
        if isinstance(event, Warned):
            self._warned.add(event.message)

    def _withdrawn(self) -> list[Launch]:
        from_workers = [] if self._workers is None else self._workers.withdraw()
        return from_workers + [launch for launch in self._dispatch.withdraw() if launch.worker is None]

    def _send_more(self) -> float:
        # Returns how long what waits must pause.
        if self._workers is not None:
            self._workers.send_more()
        if not self._dispatch.unsent:
            return 0.0
        pause = self._dispatch.send_more()
        if self._workers is not None and self._dispatch.wants_room:
            self._workers.make_room()
        return pause

    def _receive_from(self, workers: Workers, ended: list[Launch]) -> list[Launch]:
        for launch in ended:
            if launch.worker is not None:
                workers.land(launch)
                self._dispatch.land(launch)
                self._dispatch.release(launch)
        landed = [launch for launch in ended if launch.worker is None]
        return landed + workers.receive(partial(self._session.has_stalled, own=True))

    def collect(self, launch: Launch, *, keep: bool = False) -> CommandOutcome:
        """The outcome of an ended launch; its sandbox begins to stop, unless `keep` is set.

        Raises:
            InfrastructureError: If the sandbox failed, not the command.
            AuthenticationError: If the service refuses the credentials.
            UsageError: If the service refuses the request itself.
            Withdrawn: If the user asked to stop before it was sent.
        """
        if launch.in_cell and launch.process is not None:
            return self._session.collect(launch)
        self._dispatch.land(launch)
        if launch.process is None:
            raise Withdrawn
        if not keep:
            self.release(launch)
        return self._session.collect(launch)

    def release(self, launch: Launch) -> None:
        """Begins to stop the sandbox of a launch that was kept; one that is stopping already is left alone."""
        if not self._is_inherited and not launch.in_cell:
            self._dispatch.release(launch)

    def watch_runtime(self, wanted: bool) -> None:
        self._session.watch_runtime(wanted)

    def has_stalled(self, since: float) -> bool:
        return self._session.has_stalled(since)

    def _has_ended(self) -> bool:
        return self.connection.has_ended is not None and self.connection.has_ended()

    def _look_at_runtime(self) -> None:
        # A provider may continue to call an ended runtime for half a minute before a launch fails.
        if time.monotonic() - self._looked_at < BEAT_SECONDS:
            return
        if self._has_ended():
            self._renew()
        # A runtime that does not start has taken its time: it is not started again for what waited meanwhile.
        self._looked_at = time.monotonic()

    def has_moved(self, launch: Launch, error: InfrastructureError) -> bool:
        """Whether a launch failed because its runtime ended, and another one has taken the place of it."""
        return not launch.may_have_caused(error) and self.reconnect(launch)

    def reconnect(self, failed: Launch) -> bool:
        """Looks for the runtime again after a launch failed to reach it; a local one that ended is started anew.

        Returns:
            Whether later launches go to another address than the failed one.
        """
        if failed.address != self.connection.address:
            return True
        if self._session.is_gone(failed.address):
            # Nothing was asked of it; the next launch looks again.
            return False
        return self._renew()

    def _renew(self) -> bool:
        if self.connection.renew is None:
            return False
        gone = self.connection.address
        self._forget_if_ended()
        try:
            found = self.connection.renew()
        except SandrlError as error:
            self.journal.tell(Warned(f"the runtime cannot be reached again: {error.message}", error.hint, error.fields))
            return False
        if found.address == gone and not self._session.is_gone(gone):
            return False
        self.journal.tell(Warned(f"the local runtime ended; the job continues with another one at {found.address}"))
        self._lose_runtime()
        self.connection = found
        self._session.direct_to(found)
        self.journal.registration.move(found.address)
        return True

    def _forget_if_ended(self) -> None:
        if self._has_ended():
            self._lose_runtime()

    def _lose_runtime(self) -> None:
        if not self._session.is_gone(self.connection.address):
            self._session.lose_runtime()
            self._dispatch.abandon(self.connection.address)

    def cancel(self) -> None:
        """Cancels everything in flight; the sandboxes have ended when the job is closed."""
        if not self._is_inherited:
            self._dispatch.cancel()
            self._rest()

    def settle(self) -> None:
        self._stopping.settle()

    def give_up_early(self) -> None:
        """Begins to stop every sandbox before the end of the job, because its budget allows no more work.

        No launch may be awaited afterwards; the end of the job may come much later.
        """
        if not self._is_inherited:
            self._dispatch.give_up()
            self._rest()

    def _rest(self) -> None:
        if self._workers is not None:
            self._workers.rest()

    def close(self, timeout_seconds: float = CLEANUP_TIMEOUT_SECONDS) -> None:
        """Stops every sandbox of the job and waits until all have ended, at most for this time.

        Sandboxes that could not be stopped are in `unstopped`, and a warning shows the command that stops them; their
        lifetime ends them at the latest. In a forked child this does nothing: the sandboxes are the parent's.
        """
        if self._is_inherited or self._is_closed:
            return
        self._is_closed = True
        ends_at = time.monotonic() + timeout_seconds
        left_elsewhere = () if self.remote_part is None else self.remote_part.close(timeout_seconds)
        self.remote_part = None
        self._forget_if_ended()
        self._dispatch.give_up()
        self._rest()
        if self._stopping:
            self.journal.tell_who_listens(CleaningUp(len(self._stopping)))
        self._stopping.wait(ends_at)
        reason = ""
        try:
            self._finish(ends_at)
        except SandrlError as error:
            reason = error.message
            self.unstopped = (*self._stopping.left, f"tag {self.id}")
        if left_elsewhere:
            reason = reason or "a node did not confirm that they have ended"
            self.unstopped = (*self.unstopped, *left_elsewhere)
        self._traffic.look(self.connection, self.journal.tell_who_listens, at_once=True)
        self.tell_held()
        cleanup_error = self.cleanup_error()
        if cleanup_error is None:
            self.journal.registration.end()
        else:
            self.journal.tell_who_listens(Warned(f"{cleanup_error.message}: {reason}", hint=cleanup_error.hint))

    def _finish(self, ends_at: float) -> None:
        try:
            self._stopping.finish(ends_at)
        except SandrlError:
            # A runtime that was killed a moment ago looks alive until the kernel is done with it.
            looks_until = min(time.monotonic() + _ENDING_SECONDS, ends_at)
            while not self._has_ended():
                if self.connection.has_ended is None or time.monotonic() >= looks_until:
                    raise
                time.sleep(_ENDING_PAUSE_SECONDS)
            self._lose_runtime()
            self._stopping.finish(ends_at)

    def _refuse_if_inherited(self) -> None:
        if self._is_inherited:
            raise ForkedProcessError(f"{self.id} belongs to the process from which this one was forked")

    def cleanup_error(self) -> CleanupError | None:
        if not self.unstopped:
            return None
        return CleanupError(
            f"{len(self.unstopped)} sandboxes of {self.id} could not be stopped",
            hint=f"sandrl sandboxes cleanup --tag {self.id}",
        )
