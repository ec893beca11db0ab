"""The user's wish to stop rises twice and no further."""

from __future__ import annotations

from sandrl.sandboxes.interrupt import Interrupt, Level


def test_the_first_request_asks_to_finish_and_the_second_to_cancel() -> None:
    interrupt = Interrupt()
    assert interrupt.request(2)
    assert interrupt.level is Level.FINISH
    assert interrupt.request(15)
    assert [interrupt.level] == [Level.CANCEL]
    assert interrupt.signal_number == 2


def test_further_requests_change_nothing() -> None:
    interrupt = Interrupt()
    interrupt.request(2)
    interrupt.request(2)
    assert not interrupt.request(2)
    assert [interrupt.level] == [Level.CANCEL]


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
