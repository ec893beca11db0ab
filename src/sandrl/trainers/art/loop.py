"""The event loop of ART, in a thread of its own; other threads submit coroutines and wait for results.

ART's backends and the server of the trained model are coroutines of one loop, while episodes are threads that wait. A
request to cancel also wakes a waiting thread, so Ctrl-C works during a training step of several minutes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import TracebackType
from typing import Any, Self, TypeVar

from sandrl.errors import InterruptedRunError, ServiceError
from sandrl.events import Emit, TrainingStopping, ignore
from sandrl.sandboxes import Interrupt, Level

Result = TypeVar("Result")

_CLOSING_SECONDS = 10.0


class EventLoop:
    """A running event loop, between the two ends of a `with` block.

    Args:
        interrupt: The user's wish to stop: the second gives up what is waited for.
        emit: Told of such a wish.
    """

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
        """Runs a coroutine and waits for it.

        Args:
            work: The coroutine.
            is_step: Whether it is part of a step, which the first wish to stop lets finish; anything else it gives up.

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
    """Ends what still goes on in the loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
