"""Trials are admitted by what they need, in their order."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from sandrl.trials.capacity import Capacity

GIB = 1 << 30
PATIENCE_SECONDS = 20.0


class Waiter:
    """Takes capacity on a thread, and gives it back when it is told."""

    def __init__(self, capacity: Capacity, memory_bytes: int, processors: float = 1.0) -> None:
        self.has = threading.Event()
        self.leave = threading.Event()
        self._needs = memory_bytes, processors
        self._capacity = capacity
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        with self._capacity.take(*self._needs):
            self.has.set()
            self.leave.wait(PATIENCE_SECONDS)


def test_what_does_not_fit_waits_and_nobody_passes_it() -> None:
    capacity = Capacity(10 * GIB, 100.0)
    small = [Waiter(capacity, 4 * GIB) for _ in range(2)]
    assert all(each.has.wait(PATIENCE_SECONDS) for each in small)
    large = Waiter(capacity, 8 * GIB)
    threading.Event().wait(0.2)  # it waits by now
    late = Waiter(capacity, 1 * GIB)
    assert not large.has.wait(0.2)
    assert not late.has.is_set(), "it would fit, and is after the large one"
    small[0].leave.set()
    assert not late.has.wait(0.2)
    small[1].leave.set()
    assert large.has.wait(PATIENCE_SECONDS)
    assert late.has.wait(PATIENCE_SECONDS)


def test_processors_count_as_well() -> None:
    capacity = Capacity(100 * GIB, 2.5)
    first, second = Waiter(capacity, GIB, 2.0), Waiter(capacity, GIB, 2.0)
    assert first.has.wait(PATIENCE_SECONDS) or second.has.wait(PATIENCE_SECONDS)
    assert not (first.has.wait(0.2) and second.has.wait(0.2))
    for each in (first, second):
        each.leave.set()
    assert first.has.wait(PATIENCE_SECONDS)
    assert second.has.wait(PATIENCE_SECONDS)


def test_one_is_always_admitted() -> None:
    capacity = Capacity(GIB, 1.0)
    with ExitStack() as held:
        held.enter_context(capacity.take(100 * GIB, 64.0))
        other = Waiter(capacity, 1, 0.1)
        assert not other.has.wait(0.2)
    assert other.has.wait(PATIENCE_SECONDS)


def test_one_that_fails_gives_back_what_it_had() -> None:
    capacity = Capacity(GIB, 1.0)
    for _ in range(3):
        try:
            with capacity.take(GIB, 1.0):
                raise KeyError
        except KeyError:
            pass
