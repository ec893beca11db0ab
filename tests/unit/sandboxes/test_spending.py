"""What a job has used, and when it begins nothing more."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import pytest

from sandrl.config.budget import Money
from sandrl.runs.rows import now
from sandrl.sandboxes.interrupt import Interrupt, Level
from sandrl.sandboxes.spending import Allowance, Spending


def ago(seconds: float) -> datetime:
    return now() - timedelta(seconds=seconds)


def spending(seconds: float = math.inf, *, before: float = 0.0, longest: float = 100.0) -> tuple[Spending, list[Level]]:
    told: list[Level] = []
    allowance = Allowance("some", seconds, Money(36.0), before)
    return Spending(allowance, longest_seconds=longest, on_reached=told.append), told


def used(seconds: float, of: Spending, key: str = "1") -> None:
    begun = ago(1000)
    of.begin(key, begun)
    of.end(key, begun + timedelta(seconds=seconds))


def test_a_sandbox_counts_from_when_it_is_asked_for_until_it_is_gone() -> None:
    own, _ = spending()
    used(7.5, own)
    own.begin("2", ago(10))
    assert own.seconds == pytest.approx(17.5, abs=1)
    own.end("2", ago(8))
    assert own.seconds == pytest.approx(9.5, abs=0.1)


def test_only_the_first_end_of_a_sandbox_counts() -> None:
    own, _ = spending()
    used(5, own)
    own.end("1", now())
    own.end("never begun", now())
    assert own.seconds == 5


def test_what_was_refused_does_not_count_until_it_is_asked_for_again() -> None:
    own, _ = spending()
    own.begin("1", ago(1000))
    own.pause("1")
    assert own.seconds == 0
    again = ago(500)
    own.begin("1", again)
    since, ended = own.end("1", again + timedelta(seconds=3))
    assert (since, (ended - again).total_seconds(), own.seconds) == (again, 3, 3)


def test_what_is_told_is_what_was_used_since_it_was_told_last() -> None:
    own, _ = spending()
    used(4, own)
    assert (own.take(), own.take()) == (4, 0)
    used(3, own, "2")
    assert own.take() == 3


def test_without_a_bound_everything_fits() -> None:
    own, told = spending()
    used(1e9, own)
    own.look()
    own.expect(1e9)
    assert (own.limit(32), own.seconds_to_look(), told) == (32, math.inf, [])


def test_before_any_completion_has_ended_no_more_are_begun_than_fit_if_each_takes_the_longest() -> None:
    assert spending(1000, longest=100)[0].limit(32) == 10
    assert spending(50, longest=100)[0].limit(32) == 1, "one is begun in any case"


def test_no_more_are_begun_than_fit_by_what_completions_have_cost_so_far() -> None:
    own, _ = spending(100)
    used(20, own)
    for _ in range(10):
        own.finish()
    assert own.limit(64) == 40
    assert own.limit(16) == 16
    used(79, own, "2")
    assert own.limit(64) == 1
    used(1, own, "3")
    assert own.limit(64) == 0


def test_earlier_jobs_of_the_run_count() -> None:
    own, told = spending(100, before=90)
    used(10, own)
    own.look()
    assert told == [Level.FINISH]
    assert own.held.seconds == 100
    assert own.text == "the budget of some is used up (1m 40s, $1.00 of sandbox time)"


def test_what_is_under_way_ends_until_one_more_completion_has_exceeded_the_bound() -> None:
    own, told = spending(100)
    used(50, own)
    for _ in range(10):
        own.finish()
    used(51, own, "2")
    own.look()
    own.look()
    assert told == [Level.FINISH]
    used(20, own, "3")
    own.look()
    assert told == [Level.FINISH, Level.CANCEL]


def test_what_has_begun_together_may_not_exceed_the_bound_by_more_because_little_of_it_has_ended() -> None:
    own, told = spending(100)
    used(5, own)
    own.finish()
    for number in range(9):
        own.begin(f"open {number}", ago(12))
    own.look()
    assert told == [Level.CANCEL]


def test_work_stops_where_the_next_step_would_exceed_the_bound() -> None:
    own, told = spending(100)
    used(60, own)
    own.expect(40)
    assert not told
    own.expect(41)
    assert told == [Level.FINISH]


def test_processes_share_what_is_left() -> None:
    assert Allowance("", 100, None, 20).shared(4).left_seconds == 20


def test_a_budget_that_is_used_up_is_told_from_the_users_wish() -> None:
    budget, user = Interrupt(), Interrupt()
    budget.exhaust(Level.FINISH)
    assert (budget.level, budget.signal_number, budget.is_exhausted) == (Level.FINISH, 0, True)
    user.request(2)
    user.exhaust(Level.CANCEL)
    assert (user.level, user.signal_number, user.is_exhausted) == (Level.CANCEL, 2, False)
