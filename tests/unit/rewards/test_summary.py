"""Totals: rates divide by what could be scored, pass@k is the unbiased estimate."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.runs.statistics import pass_at_k
from sandrl.runs.summary import summarise


def result(task_id: str, status: Status, index: int = 0) -> ScoredCompletion:
    reward = {Status.PASSED: 1.0}.get(status, 0.0) if status.scorable else None
    passed = int(status is Status.PASSED)
    return ScoredCompletion(index, f"c{index}", task_id, reward, status, Trust.IN_PROCESS, passed, 1, 0.1, "sb", "")


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_is_the_share_of_draws_with_a_pass(case: tuple[int, int, int]) -> None:
    n, c, k = case
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(draw) for draw in draws) / len(draws))


@pytest.mark.parametrize("case", [(1, 2, 1), (1, 0, 2), (3, -1, 1), (3, 1, 0)])
def test_pass_at_k_refuses_numbers_that_do_not_fit(case: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(*case)


def test_unscorable_completions_are_in_no_rate() -> None:
    summary = summarise([result("a", Status.PASSED), result("a", Status.INFRASTRUCTURE), result("b", Status.FAILED)])
    assert (summary.n, summary.scored, summary.unscorable) == (3, 2, 1)
    assert summary.pass_rate == 0.5
    assert summary.total_reward == 1.0


def test_pass_at_k_counts_only_problems_with_enough_scored_completions() -> None:
    many = [result("a", Status.PASSED), *[result("a", Status.FAILED) for _ in range(4)], result("b", Status.PASSED)]
    estimates = summarise(many).pass_at_k
    assert estimates == {1: pytest.approx(0.6), 5: pytest.approx(1.0)}


def test_nothing_scored_has_no_pass_rate() -> None:
    summary = summarise([result("a", Status.INFRASTRUCTURE)])
    assert summary.pass_rate is None
    assert summary.pass_at_k == {}
