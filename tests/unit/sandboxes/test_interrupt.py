"""The user's wish to stop rises twice and no further."""

from __future__ import annotations

from sandrl.sandboxes.interrupt import Interrupt, Level


def test_the_first_request_asks_to_finish_the_second_to_cancel_and_further_ones_change_nothing() -> None:
    interrupt = Interrupt()
    found = [(interrupt.request(number), interrupt.level) for number in (2, 15, 15)]
    assert found == [(True, Level.FINISH), (True, Level.CANCEL), (False, Level.CANCEL)]
    assert interrupt.signal_number == 2


def test_a_request_wakes_whoever_waits() -> None:
    interrupt = Interrupt()
    waker = interrupt.waker()
    interrupt.request(2)
    assert waker.done()


def test_a_request_after_the_waker_was_given_up_is_harmless() -> None:
    interrupt = Interrupt()
    interrupt.waker().cancel()
    assert interrupt.request(2)


def test_who_is_woken_before_waiting_looks_around_at_once_and_only_once() -> None:
    interrupt = Interrupt()
    interrupt.wake()
    assert interrupt.is_awake
    assert interrupt.look_around()
    assert not interrupt.look_around()
    assert interrupt.level is Level.NONE
