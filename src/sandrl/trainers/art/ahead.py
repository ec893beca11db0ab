"""Runs the episodes of the next round in a thread of their own, while the backend trains on those of the last one.

The job is used by one round at a time, and by nothing else meanwhile. Events of a round that is ahead are held back
until it is taken, so they are counted in the row of their own round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from sandrl.closing import Closing
from sandrl.events import BudgetReached, Emit, Event, SandboxesHeld, StopRequested, Warned
from sandrl.sandboxes import Interrupt

Result = TypeVar("Result")

# What concerns the user or the job now, and no round.
_URGENT = (BudgetReached, SandboxesHeld, StopRequested, Warned)


class PlayAhead(Closing, Generic[Result]):
    """At most one round that is ahead.

    Attributes:
        interrupt: What the player of the rounds obeys: the requests to the training, and `close`.
    """

    def __init__(self, interrupt: Interrupt) -> None:
        self.interrupt = interrupt.child()
        self._lock = threading.Lock()
        self._held: list[tuple[Emit, Event]] | None = None
        self._played: Future[Result] | None = None
        self._thread: threading.Thread | None = None

    def holding(self, emit: Emit) -> Emit:
        """What events of rounds are told to: it passes them on to `emit`, but those of a round that is ahead later."""

        def tell(event: Event) -> None:
            with self._lock:
                if self._held is not None and not isinstance(event, _URGENT):
                    self._held.append((emit, event))
                    return
            emit(event)

        return tell

    def begin(self, play: Callable[[], Result]) -> None:
        """Begins a round; the one before it is over."""
        self._held, played = [], Future[Result]()

        def work() -> None:
            try:
                played.set_result(play())
            except Exception as error:  # noqa: BLE001 - whoever takes the round hears of it
                played.set_exception(error)

        self._played, self._thread = played, threading.Thread(target=work, name="sandrl-ahead", daemon=True)
        self._thread.start()

    def take(self) -> Result | None:
        """Waits for the round that was begun, and tells what happened in it; None if none was begun.

        Events of its end are told as they come.
        """
        played, self._played = self._played, None
        if played is None:
            return None
        with self._lock:
            held, self._held = self._held or [], None
            for emit, event in held:
                emit(event)
        return played.result()

    def close(self) -> None:
        """Gives up the round that is ahead; the sandboxes are the job's to clean up."""
        while self._played is not None and self.interrupt.request(0):
            pass
        if self._thread is not None:
            self._thread.join()
