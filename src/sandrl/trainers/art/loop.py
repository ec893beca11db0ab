"""The event loop of ART, in a thread of its own; other threads submit coroutines and wait for results.

ART's backends and the server of the trained model are coroutines of one loop, while episodes are threads that wait. A
request to cancel also wakes a waiting thread, so Ctrl-C works during a training step of several minutes. While the
library of a service waits silently, a second thread reports what the training is waiting for.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from sandrl.errors import InterruptedRunError, SandrlError, ServiceError
from sandrl.events import Emit, TrainingStopping, Warned, ignore
from sandrl.sandboxes import Interrupt, Level

Result = TypeVar("Result")

_CLOSING_SECONDS = 10.0
_PAUSE_SECONDS = 5.0
# One miss is no absence.
_MISSES = 2


class EventLoop:
    """A running event loop, between the two ends of a `with` block."""

    def __init__(self, interrupt: Interrupt, emit: Emit = ignore) -> None:
        self._interrupt = interrupt
        self._emit = emit
        self._loop = asyncio.new_event_loop()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, name="sandrl-art", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(_cancel_others())
        if not self._ended.done():
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, Result], *, is_step: bool = False) -> Result:
        """Runs a coroutine and waits for it; only a part of a step is not given up at the first wish to stop.

        Raises:
            InterruptedRunError: If the user does not want to wait any more.
            ServiceError: If the loop has ended.
        """
        result = asyncio.run_coroutine_threadsafe(work, self._loop)
        seen = self._interrupt.level
        last = Level.CANCEL if is_step else Level.FINISH
        while not result.done():
            waker = self._interrupt.waker()
            level = self._interrupt.level
            if level > seen:
                self._emit(TrainingStopping(cancel=level >= last))
            if level >= last:
                result.cancel()
                raise InterruptedRunError("interrupted", signal_number=self._interrupt.signal_number)
            if level > seen:
                seen = level
                continue
            waiting: set[Future[Any]] = {result, waker, self._ended}
            wait(waiting, return_when=FIRST_COMPLETED)
            if self._ended.done() and not result.done():
                raise ServiceError("the event loop of ART has ended; see printed.log in the run directory")
        return result.result()

    def _live(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._ended.set_result(None)

    def close(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine that puts things in order, whatever the user wishes; gives it a few seconds."""
        if self._ended.done():
            work.close()
            return
        closing: set[Future[None]] = {asyncio.run_coroutine_threadsafe(work, self._loop), self._ended}
        wait(closing, timeout=_CLOSING_SECONDS, return_when=FIRST_COMPLETED)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def watched(check: Callable[[], None], emit: Emit) -> Iterator[None]:
    """Says when a service stops answering `check` for the length of a `with` block, and when it answers again."""
    over = threading.Event()

    def watch() -> None:
        misses = 0
        while not over.wait(_PAUSE_SECONDS):
            try:
                check()
            except SandrlError as error:
                misses += 1
                if misses == _MISSES and not over.is_set():
                    hint = "waiting for it; press Ctrl-C twice to cancel the step, and use `resume` to continue later"
                    emit(Warned(error.message, hint, (*error.fields, "resume")))
            else:
                if misses >= _MISSES and not over.is_set():
                    emit(Warned("it answers again"))
                misses = 0

    threading.Thread(target=watch, name="sandrl-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
