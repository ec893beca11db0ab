"""Many calls at once, never more than a limit, until they are done or the user asks to stop.

The end of each call is put into one queue, so neither the number of calls nor the user's request to stop costs a poll.
The consumer of the queue decides what an end means; nothing is retried, and a failure does not end the other calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from sandrl.sandboxes.interrupt import Interrupt, Level

Item = TypeVar("Item")
Value = TypeVar("Value")


def in_parallel(
    items: Iterable[Item],
    start: Callable[[Item], Future[Any]],
    *,
    limit: int,
    interrupt: Interrupt,
    on_request: Callable[[int], None],
) -> Iterator[tuple[Item, Future[Any]]]:
    """Starts a call for every item and yields those that have ended, in the order of their ends.

    Args:
        interrupt: After a request to finish, no further call is started; after one to cancel, no end is awaited.
        on_request: Called each time the user asks to stop, with the number of calls in flight.

    Yields:
        An item and its ended call. Items that are never yielded were not started, or not awaited.
    """
    waiting = deque(items)
    ended: SimpleQueue[tuple[Item, Future[Any]] | None] = SimpleQueue()
    in_flight = 0
    announced = Level.NONE
    _ring(interrupt, ended)
    while True:
        while interrupt.level is not announced:  # the user may ask again while the first request is announced
            announced = interrupt.level
            on_request(in_flight)
        while waiting and in_flight < limit and interrupt.level is Level.NONE:
            item = waiting.popleft()
            start(item).add_done_callback(lambda future, item=item: ended.put((item, future)))  # type: ignore[misc]
            in_flight += 1
        if not in_flight or announced is Level.CANCEL:
            return
        end = ended.get()
        if end is None:
            _ring(interrupt, ended)
        else:
            in_flight -= 1
            yield end


def _ring(interrupt: Interrupt, ended: SimpleQueue[Any]) -> None:
    # Made before the level is looked at: a request in between rings the new one.
    interrupt.waker().add_done_callback(lambda _: ended.put(None))
