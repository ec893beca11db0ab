"""A round of episodes that is played ahead: its events come with it, and it ends when it is not wanted."""

from __future__ import annotations

import threading

import pytest

from sandrl.errors import ServiceError
from sandrl.events import Event, RewardCallFinished, Warned
from sandrl.sandboxes import Interrupt, Level
from sandrl.trainers.art.ahead import PlayAhead

COUNTED = RewardCallFinished(
    number=1, completions=1, sandboxes=1, passed=1, judged=1, no_code=0, cached=0, unscorable=0, seconds=1.0
)


def test_what_is_counted_comes_when_the_round_is_taken() -> None:
    told: list[Event] = []
    ahead, warned = PlayAhead[str](Interrupt()), Warned("careful")
    tell = ahead.holding(told.append)

    def play() -> str:
        tell(COUNTED)
        tell(warned)
        return "played"

    assert ahead.take() is None
    tell(COUNTED)
    ahead.begin(play)
    while len(told) < 2:
        threading.Event().wait(0.01)
    assert told == [COUNTED, warned]
    assert ahead.take() == "played"
    assert told == [COUNTED, warned, COUNTED]
    assert ahead.take() is None


def test_an_error_of_the_round_is_that_of_who_takes_it() -> None:
    ahead = PlayAhead[str](Interrupt())

    def play() -> str:
        raise ServiceError("gone")

    ahead.begin(play)
    with pytest.raises(ServiceError, match="gone"):
        ahead.take()


def test_a_round_that_is_given_up_hears_of_it_and_the_training_does_not() -> None:
    interrupt = Interrupt()
    ahead = PlayAhead[str](interrupt)

    def play() -> str:
        while ahead.interrupt.level is not Level.CANCEL:
            ahead.interrupt.waker().result(5)
        return "given up"

    ahead.begin(play)
    ahead.close()
    assert interrupt.level is Level.NONE


def test_requests_to_the_training_reach_what_is_ahead() -> None:
    interrupt = Interrupt()
    interrupt.request(2)
    ahead = PlayAhead[str](interrupt)
    assert (ahead.interrupt.level, ahead.interrupt.signal_number) == (Level.FINISH, 2)
    interrupt.exhaust(Level.CANCEL)
    assert ahead.interrupt.level is Level.CANCEL
