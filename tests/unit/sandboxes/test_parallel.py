"""Many calls at once: all of them, never more than allowed, and no more once the user asks to stop."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sandrl.sandboxes import Interrupt
from sandrl.sandboxes.cleanup import in_parallel
from sandrl.sandboxes.interrupt import Level


@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_every_call_ends_once_and_never_are_there_too_many(count: int) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def work(item: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.001)
        with lock:
            now -= 1
        if item % 7 == 3:
            raise ValueError(item)
        return item * 10

    with ThreadPoolExecutor(16) as pool:
        ends = in_parallel(
            range(count),
            lambda item: pool.submit(work, item),
            limit=4,
            interrupt=Interrupt(),
            on_request=lambda _: None,
        )
        results = {item: -1 if future.exception() else future.result() for item, future in ends}
    assert results == {item: -1 if item % 7 == 3 else item * 10 for item in range(count)}
    assert most <= 4


def test_asked_to_finish_it_starts_no_more_and_waits_for_what_flies() -> None:
    interrupt, told, flying = Interrupt(), [], dict[int, "Future[int]"]()

    def start(item: int) -> Future[int]:
        flying[item] = Future()
        if len(flying) == 5:
            interrupt.request(2)
        return flying[item]

    def on_request(count: int) -> None:
        told.append(count)
        for future in flying.values():
            future.set_result(0)

    ends = list(in_parallel(range(100), start, limit=8, interrupt=interrupt, on_request=on_request))
    assert {item for item, _ in ends} == set(range(5))
    assert told == [5]


def test_asked_to_cancel_it_waits_for_nothing() -> None:
    interrupt = Interrupt()

    def start(_: int) -> Future[int]:
        interrupt.request(2)
        return Future()

    announced: list[int] = []

    def on_request(_: int) -> None:
        announced.append(interrupt.level)
        interrupt.request(2)

    assert list(in_parallel(range(100), start, limit=8, interrupt=interrupt, on_request=on_request)) == []
    assert announced == [Level.FINISH, Level.CANCEL], "a request made while the one before is announced counts, too"
