"""One event loop in its own thread, for callers that are not asynchronous.

The process has one loop, started on first use. A connection belongs to the loop it was made on, so clients that are
created and closed often (a trained model has another name after each step) must use the same loop. The thread is a
daemon: a request that is no longer needed does not delay the end of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

from sandrl import forks

Result = TypeVar("Result")


class LoopThread:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        forks.watch(self)

    def after_fork(self) -> None:
        """Begins anew: the thread of the loop is not in the child."""
        self._lock = threading.Lock()
        self._loop = None

    def submit(self, coroutine: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Runs a coroutine on the loop; cancelling the future cancels it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="sandrl-models", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


def cancel_once(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks that are not being cancelled: a second time would interrupt the closing of their connections."""
    for task in tuple(tasks):
        if not task.cancelling():
            task.cancel()


LOOP = LoopThread()
"""The loop of this process."""
