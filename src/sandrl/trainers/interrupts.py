"""Ctrl-C during training: the first one finishes and saves the current step, the second one cancels it.

A step of a large model can spend minutes inside libraries that check no flag, so the second Ctrl-C raises an exception
there, at the point where Python delivers signals. Nothing is lost: the last checkpoint is complete, and rewards that
are being computed are cancelled separately.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sandrl.errors import InterruptedRunError
from sandrl.events import Emit, TrainingStopping
from sandrl.sandboxes import Interrupt, Level


class TrainingInterrupt(Interrupt):
    """The user's wish to stop a training run, whose launcher may run several processes (`is_one_of_many`).

    Attributes:
        scoring: The wish to give up the rewards that are being computed; never only to finish them.
    """

    def __init__(self, *, is_one_of_many: bool = False) -> None:
        super().__init__()
        self.scoring = Interrupt()
        self._is_one_of_many = is_one_of_many
        self._may_be_torn = False

    def request(self, signal_number: int) -> bool:
        """Asks once more; the second time what is being done is torn open by an error.

        Raises:
            InterruptedRunError: The second time, if something is being done.
        """
        # A launcher passes a terminal's Ctrl-C on as SIGTERM: that is the same wish.
        if self._is_one_of_many and self.level is Level.FINISH and signal_number != self.signal_number:
            return True
        if not super().request(signal_number):
            return False
        if self.level is Level.CANCEL:
            self.scoring.request(self.signal_number)
            self.scoring.request(self.signal_number)
            if self._may_be_torn:
                self._may_be_torn = False
                raise self.error()
        return True

    def exhaust(self, level: Level) -> None:
        # No more is scored, so that the current step is given up if it has not all of its rewards.
        super().exhaust(Level.FINISH)
        self.scoring.exhaust(level)

    def error(self) -> InterruptedRunError:
        return InterruptedRunError("interrupted", signal_number=self.signal_number)

    @contextmanager
    def tearing(self) -> Iterator[None]:
        """Lets the second wish tear open what is done in the `with` block."""
        self._may_be_torn = True
        try:
            yield
        finally:
            self._may_be_torn = False

    @contextmanager
    def answered(self, emit: Emit) -> Iterator[None]:
        """Answers each wish at once, from a thread: a signal handler may be in the middle of a line being drawn."""
        over = threading.Event()

        def answer() -> None:
            seen = Level.NONE
            while not over.is_set() and seen is not Level.CANCEL:
                waker = self.waker()
                if self.level is seen and not over.is_set():
                    waker.result()
                if self.level > seen and not over.is_set():
                    seen = self.level
                    emit(TrainingStopping(cancel=seen is Level.CANCEL))

        thread = threading.Thread(target=answer, name="sandrl-interrupt", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            self.wake()
            thread.join()
