"""The launches of a job, from when they are handed over until their sandboxes are given up.

A launch is handed over at once and sent when there is room: within the user's limit, and within what the service
accepts (see `pace.py`). If the service refuses a launch for lack of room, it returns to the queue here, and no caller
sees the refusal.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence

from sandrl.events import CreationSlowed
from sandrl.runs import WARM_TAG
from sandrl.runs.rows import now
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.journal import Journal
from sandrl.sandboxes.pace import Pace
from sandrl.sandboxes.session import InteractiveProgram, Launch, Session
from sandrl.sandboxes.shape import USUAL, Shape
from sandrl.sandboxes.stopping import Stopping
from sandrl.sandboxes.tags import encode_tag

# What a sandbox runs that nobody has a command for yet.
_NOTHING = Command(())
# What a launch that takes a spare sandbox may need beyond its command's own time: the way there and back.
_MARGIN_SECONDS = 30.0


class Dispatch:
    """Sends launches, and keeps track of the sandboxes that a job holds."""

    def __init__(
        self,
        session: Session,
        journal: Journal,
        stopping: Stopping,
        *,
        max_sandboxes: int | None,
        max_lifetime_seconds: float,
    ) -> None:
        self._session = session
        self._journal = journal
        self._stopping = stopping
        self._pace = Pace(max_sandboxes)
        self._max_lifetime_seconds = max_lifetime_seconds
        # Sandboxes that were started before they are needed: launches without a command, oldest first. They are in the
        # ledger and count as held; the launch that takes one uses its name from then on. Nothing waits for one.
        self._spares: deque[Launch] = deque()
        self._keys = itertools.count(1)
        # In flight is what was handed over and not collected; some of it waits to be sent.
        self._in_flight: dict[str, Launch] = {}
        self.unsent: deque[Launch] = deque()
        self._kept: dict[str, Launch] = {}
        self._workers = 0

    def __len__(self) -> int:
        # Without workers, which are there until they are given up.
        return len(self._in_flight) - self._workers

    @property
    def held(self) -> int:
        """How many sandboxes exist, or may exist because they are being created or stopped."""
        in_use = len(self._kept.keys() | self._in_flight.keys()) - len(self.unsent)
        return in_use + len(self._spares) + len(self._stopping)

    def warm_up(self, count: int, tags: Sequence[str], timeout_seconds: float) -> None:
        """Begins to create sandboxes for later launches, until `count` are ready or no room is left."""
        unfit = self._remove_spares(lambda spare: not self._suits(spare, timeout_seconds))
        for spare in unfit:
            self._stopping.begin(spare)
        # Where the service has just refused some, the launches to come will find out when it has room again.
        if any(spare.has_failed_to_start for spare in unfit) or self._pace.seconds_left(time.monotonic()):
            return
        encoded = tuple(encode_tag(tag) for tag in (WARM_TAG, *tags))
        while len(self._spares) < count and self._pace.has_room(self.held):
            spare = Launch(self.new_key(), _NOTHING, encoded)
            self._journal.intend(spare)
            self._session.prepare(spare)
            self._spares.append(spare)

    def send_within(self, command: Command, kept: Launch) -> Launch:
        launch = Launch(kept.key, command)
        self._in_flight[launch.key] = launch
        self._session.send(launch, kept)
        return launch

    def hand_over(self, command: Command, tags: Sequence[str], *, may_be_warm: bool, shape: Shape = USUAL) -> Launch:
        """Takes a command for a fresh sandbox, and sends it if there is room."""
        encoded = tuple(encode_tag(tag) for tag in tags)
        launch = Launch(self.new_key(), command, encoded, may_be_warm and shape == USUAL, shape=shape)
        self._in_flight[launch.key] = launch
        self.unsent.append(launch)
        self.send_more()
        return launch

    def start_worker(self, worker: InteractiveProgram, tags: Sequence[str], image: str = "") -> Launch:
        """Takes a worker, and starts it in a sandbox of its own if there is room."""
        encoded = tuple(encode_tag(tag) for tag in tags)
        launch = Launch(self.new_key(), _NOTHING, encoded, worker=worker, shape=Shape(image))
        self._in_flight[launch.key] = launch
        self._workers += 1
        self.unsent.append(launch)
        self.send_more()
        return launch

    def note_worker(self, launch: Launch) -> None:
        if launch.sandbox_id is not None and launch.key not in self._kept:
            self._keep(launch, launch.sandbox_id)

    def use_worker(self, launch: Launch, tags: Sequence[str]) -> None:
        self._journal.taken(launch.key, tuple(encode_tag(tag) for tag in tags))

    @property
    def wants_room(self) -> bool:
        """Whether a command waits for a sandbox of its own until another one is given up."""
        waits = any(launch.worker is None for launch in self.unsent)
        return waits and not self._pace.has_room(self.held) and not len(self._stopping)

    def send_more(self) -> float:
        """Sends what waits, as far as there is room.

        Returns:
            How long the rest must pause after a refusal of the service; 0 if it need not.
        """
        if not self._pace.has_room(self.held):
            self._stopping.settle()
        while self.unsent:
            launch = self.unsent[0]
            if not self._take_spare(launch):
                if self._pace.seconds_left(time.monotonic()) or not self._pace.has_room(self.held):
                    break
                if launch.address:
                    self._journal.spending.begin(launch.key, now())
                else:
                    self._journal.intend(launch)
            self._session.send(launch)
            self.unsent.popleft()
        if not self.unsent:
            return 0.0
        self._stopping.watch()
        return self._pace.seconds_left(time.monotonic())

    def withdraw(self) -> list[Launch]:
        withdrawn = list(self.unsent)
        self._drop_unsent()
        return withdrawn

    def _drop_unsent(self) -> None:
        for launch in self.unsent:
            if launch.address:
                # It was refused once, and is not asked for again.
                self._journal.lost(launch.key)
        self.unsent.clear()

    def put_back(self, launch: Launch) -> bool:
        """Whether an ended launch was refused for lack of room, and so waits to be sent again."""
        refusal = self._session.refusal(launch)
        if refusal is None or launch.key not in self._in_flight:
            return False
        launch.process = None
        self.unsent.appendleft(launch)
        self._journal.spending.pause(launch.key)
        # It may exist all the same, if the answer is not the whole story.
        self._stopping.lose_track()
        sent = (each for each in self._in_flight.values() if each.sandbox_id is not None)
        pause = self._pace.refuse(
            asked_at=launch.launched_at,
            now=time.monotonic(),
            exists=len({each.key for each in sent} | self._kept.keys()) + len(self._stopping),
            hint_seconds=refusal.retry_seconds,
        )
        if pause is not None:
            self._journal.tell(CreationSlowed(refusal.message, pause))
        return True

    def land(self, launch: Launch) -> None:
        """Takes a launch out of flight, and keeps its sandbox, if it got one, until that is released."""
        if self._in_flight.pop(launch.key, None) is not None:
            self._workers -= launch.worker is not None
        if launch.process is None:
            return
        if launch.sandbox_id is None:
            self._stopping.lose_track()
            self._journal.lost(launch.key)
            return
        if launch.key not in self._kept:
            self._keep(launch, launch.sandbox_id)
        self._kept[launch.key] = launch

    def _keep(self, launch: Launch, sandbox_id: str) -> None:
        # First: if it cannot be written down (the disk is full), it must be stopped all the same.
        self._kept[launch.key] = launch
        self._pace.accept()
        self._journal.created(launch.key, sandbox_id)

    def release(self, launch: Launch) -> None:
        """Begins to stop the sandbox of a launch that was kept; one that is stopping already is left alone."""
        if self._kept.pop(launch.key, None) is not None:
            self._stopping.begin(launch)
        self._stopping.keep_few()

    def abandon(self, address: str) -> None:
        """Gives up everything at a runtime that has ended, which a provider may continue to call for minutes.

        Launches in flight there end with an error, and warm sandboxes there are dropped.
        """
        for launch in self._in_flight.values():
            if launch.address == address:
                launch.cancel()
        for spare in self._remove_spares(lambda spare: spare.address == address):
            spare.cancel()
            self._stopping.begin(spare)
        self._stopping.abandon(address)

    def cancel(self) -> None:
        self._drop_unsent()
        for launch in self._in_flight.values():
            launch.cancel()

    def give_up(self) -> None:
        self.cancel()
        for launch in (self._kept | self._in_flight).values():
            if launch.process is not None:
                self._stopping.begin(launch)
        for spare in self._remove_spares(lambda _: True):
            self._stopping.begin(spare)
        self._kept.clear()
        self._in_flight.clear()
        self._workers = 0

    def _take_spare(self, launch: Launch) -> bool:
        if launch.address or not launch.may_be_warm:
            return False
        seconds = launch.command.timeout_seconds
        spare = next((spare for spare in self._spares if self._suits(spare, seconds)), None)
        if spare is None:
            return False
        self._spares.remove(spare)
        self._journal.taken(spare.key, launch.tags)
        del self._in_flight[launch.key]
        launch.key, launch.address, launch.sandbox = spare.key, spare.address, spare.sandbox
        self._in_flight[launch.key] = launch
        return True

    def _remove_spares(self, unwanted: Callable[[Launch], bool]) -> list[Launch]:
        removed = [spare for spare in self._spares if unwanted(spare)]
        for spare in removed:
            self._spares.remove(spare)
        return removed

    def _suits(self, spare: Launch, timeout_seconds: float) -> bool:
        # Not one that failed, is elsewhere, or has too little lifetime left.
        age_seconds = time.monotonic() - spare.launched_at
        lives_on = age_seconds + timeout_seconds + _MARGIN_SECONDS < self._max_lifetime_seconds
        return lives_on and spare.address == self._session.address and not spare.has_failed_to_start

    def new_key(self) -> str:
        return f"{next(self._keys):06d}"
