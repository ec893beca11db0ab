"""The user's request to a running job: none, to finish, or to cancel.

A signal handler only raises a level and completes a future. Work is never interrupted in the middle of a line: it reads
the level where it is safe to act, and waits for the future together with its sandboxes, so it wakes at once and never
polls.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from enum import IntEnum


class Level(IntEnum):
    """How urgently the user wants to stop."""

    NONE = 0
    FINISH = 1
    CANCEL = 2


class Interrupt:
    """The user's wish to stop, raised by a signal handler and read by the work it is passed to.

    Attributes:
        level: What is asked for.
        signal_number: The signal that asked first; 0 if none has.
        is_exhausted: Whether a budget that is used up asked, and not the user.
        is_heard: Whether anybody looks at the level.
        was_heard: Whether anybody ever did.
    """

    def __init__(self) -> None:
        self.level = Level.NONE
        self.signal_number = 0
        self.is_exhausted = False
        self.is_heard = False
        self.was_heard = False
        self._waker: Future[None] = Future()
        self._was_woken = False

    def request(self, signal_number: int) -> bool:
        """Asks once more.

        Args:
            signal_number: The signal behind it.

        Returns:
            Whether that changed anything; after the second time it does not.
        """
        if self.level is Level.CANCEL:
            return False
        self.signal_number = self.signal_number or signal_number
        self.level = Level(self.level + 1)
        self.wake()
        return True

    def exhaust(self, level: Level) -> None:
        """Asks because a budget is used up.

        Args:
            level: How far that goes.
        """
        if level > self.level:
            self.is_exhausted = self.is_exhausted or self.level is Level.NONE
            self.level = level
            self.wake()

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Says that someone looks at the level for the length of a `with` block; outside of it a signal just ends."""
        self.is_heard = self.was_heard = True
        try:
            yield
        finally:
            self.is_heard = False

    def waker(self) -> Future[None]:
        """A fresh future that the next request completes; whoever waits may complete it for reasons of their own."""
        self._waker = Future()
        return self._waker

    def wake(self) -> None:
        """Completes the future that was handed out last: whoever waits for it looks around, or does so at once next."""
        self._was_woken = True
        with suppress(InvalidStateError):
            self._waker.set_result(None)

    @property
    def is_awake(self) -> bool:
        """Whether someone was woken who has not looked around yet."""
        return self._was_woken

    def look_around(self) -> bool:
        """Whether there is a reason to look around; whoever asks does so."""
        was_woken, self._was_woken = self._was_woken, False
        return was_woken
