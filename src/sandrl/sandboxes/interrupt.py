"""The user's request to a running job: no request, to finish, or to cancel.

A signal handler only raises a level and completes a future. Work is never interrupted in the middle of a line: it reads
the level where it is safe to act, and waits for the future together with its sandboxes, so it wakes at once and never
polls.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from enum import IntEnum
from weakref import WeakSet


class Level(IntEnum):
    """How urgent the user's request to stop is."""

    NONE = 0
    FINISH = 1
    CANCEL = 2


class Interrupt:
    """The user's request to stop, raised by a signal handler and read by the work that it is passed to.

    Attributes:
        signal_number: The first signal; 0 if there was none.
        is_exhausted: Whether the first request came from a budget that is used up, not from the user.
        is_awake: Whether the waiter was woken and has not looked around yet.
    """

    def __init__(self) -> None:
        self.level = Level.NONE
        self.signal_number = 0
        self.is_exhausted = False
        self.is_heard = False
        self.was_heard = False
        self._waker: Future[None] = Future()
        self.is_awake = False
        self._children: WeakSet[Interrupt] = WeakSet()

    def child(self) -> Interrupt:
        """An interrupt that hears every request to this one; a request to it alone is not heard here."""
        child = Interrupt()
        child.level, child.signal_number, child.is_exhausted = self.level, self.signal_number, self.is_exhausted
        self._children.add(child)
        return child

    def request(self, signal_number: int) -> bool:
        """Raises the level by one.

        Returns:
            Whether the level changed; a third request changes nothing.
        """
        if self.level is Level.CANCEL:
            return False
        self.signal_number = self.signal_number or signal_number
        self.level = Level(self.level + 1)
        self.wake()
        for child in tuple(self._children):
            child.request(signal_number)
        return True

    def exhaust(self, level: Level) -> None:
        """Raises the level because a budget is used up."""
        if level > self.level:
            self.is_exhausted = self.is_exhausted or self.level is Level.NONE
            self.level = level
            self.wake()
            for child in tuple(self._children):
                child.exhaust(level)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Notes that the level is read during a `with` block; outside of it, a signal ends the command at once."""
        self.is_heard = self.was_heard = True
        try:
            yield
        finally:
            self.is_heard = False

    def waker(self) -> Future[None]:
        """A new future that the next request completes; the waiter may also complete it for other reasons."""
        self._waker = Future()
        return self._waker

    def wake(self) -> None:
        """Completes the latest future, so that the waiter looks around now, or at its next wait."""
        self.is_awake = True
        with suppress(InvalidStateError):
            self._waker.set_result(None)

    def look_around(self) -> bool:
        """Whether the waiter was woken since the last call."""
        was_woken, self.is_awake = self.is_awake, False
        return was_woken
