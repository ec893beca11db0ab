"""When a job may ask for another sandbox, and how long it waits where there is no room."""

from __future__ import annotations

import pytest

from sandrl.sandboxes.pace import LONGEST_DELAY_SECONDS, Pace, delay_seconds


@pytest.mark.parametrize(("failures", "expected"), [(1, 0.5), (2, 1.0), (3, 2.0), (100, LONGEST_DELAY_SECONDS)])
def test_each_wait_is_twice_as_long_give_or_take_a_quarter(failures: int, expected: float) -> None:
    delays = [delay_seconds(failures, 0.5) for _ in range(50)]
    assert all(0.75 * expected <= delay <= 1.25 * expected for delay in delays)
    assert len(set(delays)) > 1
    assert delay_seconds(failures, 0.0) == 0.0


def test_the_users_bound_counts_everything_that_is_held() -> None:
    pace = Pace(max_sandboxes=3)
    assert [pace.has_room(held) for held in (0, 2, 3, 4)] == [True, True, False, False]
    assert Pace().has_room(10**6)


def test_a_refusal_closes_the_window_to_what_exists_and_acceptance_opens_it_again() -> None:
    pace = Pace()
    pace.refuse(asked_at=1.0, now=2.0, exists=4)
    assert [pace.has_room(held) for held in (3, 4)] == [True, False]
    for _ in range(5):
        pace.accept()
    assert [pace.has_room(held) for held in (4, 5)] == [True, False]


def test_there_is_always_room_for_one() -> None:
    pace = Pace()
    pace.refuse(asked_at=1.0, now=2.0, exists=0)
    assert [pace.has_room(held) for held in (0, 1)] == [True, False]


def test_the_pause_is_the_one_asked_for_and_grows_where_none_is() -> None:
    pace = Pace()
    pace.refuse(asked_at=1.0, now=2.0, exists=1, hint_seconds=7.0)
    assert 7.0 <= pace.seconds_left(2.0) <= 7.0 * 1.25
    assert pace.seconds_left(20.0) == 0.0
    pauses = []
    for now in (20.0, 40.0, 60.0):
        pace.refuse(asked_at=now - 1.0, now=now, exists=1)
        pauses.append(pace.seconds_left(now))
    assert 0.75 <= pauses[0] <= 1.25
    assert 3.0 <= pauses[2] <= 5.0


def test_what_was_asked_for_together_is_one_refusal() -> None:
    pace = Pace()
    told = [pace.refuse(asked_at=1.0, now=2.0 + number / 100, exists=8) for number in range(32)]
    assert told[0] is not None
    assert told[1:] == [None] * 31
    assert pace.seconds_left(2.0) <= 0.5 * 1.25


def test_it_is_told_once_a_minute() -> None:
    pace = Pace()
    moments = [2.0, 5.0, 30.0, 61.0, 63.0, 90.0]
    told = [pace.refuse(asked_at=now - 0.1, now=now, exists=1) is not None for now in moments]
    assert told == [True, False, False, False, True, False]


def test_a_minute_without_refusals_ends_it() -> None:
    pace = Pace()
    pace.refuse(asked_at=1.0, now=2.0, exists=1)
    pace.seconds_left(30.0)
    assert not pace.has_room(1)
    pace.seconds_left(70.0)
    assert pace.has_room(1000)
