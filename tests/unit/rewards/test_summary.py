"""Totals: rates divide by what could be scored, pass@k is the unbiased estimate and has an interval."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.events.results import ScoredCompletion, Status, Trust
from sandrl.runs.statistics import estimate, pass_at_k
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
    nothing = summarise([result("a", Status.INFRASTRUCTURE)])
    assert (nothing.pass_rate, nothing.pass_at_k) == (None, {})


# Wilson's interval of 8 passes in 10 samples, by hand: (0.8 + 0.19207) / 1.38415 -+ 1.96 * 0.15951 / 1.38415.
def test_with_one_sample_of_each_problem_the_interval_is_wilsons() -> None:
    found = estimate([1.0] * 8 + [0.0] * 2)
    assert found is not None
    assert (found.value, found.problems) == (0.8, 10)
    assert [found.low, found.high] == pytest.approx([0.4902, 0.9433], abs=1e-4)


def test_samples_of_the_same_problem_count_for_less_than_samples_of_other_problems() -> None:
    # Every problem is solved always or never: four samples of each say no more than one.
    same, once = estimate([1.0] * 8 + [0.0] * 8, tries=64), estimate([1.0] * 8 + [0.0] * 8)
    assert same == once
    # Every problem is solved by two of four samples, as far as chance allows: they say as much as 64 problems.
    spread, many = estimate([0.5] * 16, tries=64), estimate([1.0] * 32 + [0.0] * 32)
    assert spread is not None
    assert many is not None
    assert once is not None
    assert (spread.low, spread.high) == (many.low, many.high)
    assert spread.high - spread.low < once.high - once.low


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_an_interval_has_a_width_and_its_mean_inside_and_stays_between_0_and_1(passes: list[int]) -> None:
    found = estimate([count / 4 for count in passes], tries=4 * len(passes))
    assert found is not None
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.high - found.low > 0.02


@pytest.mark.parametrize(("problems", "samples"), [(8, 1), (8, 4), (20, 4), (128, 4), (20, 16)])
@pytest.mark.parametrize("shape", [(1.0, 1.0), (9.0, 1.0), (0.3, 0.3), (20.0, 20.0)])
def test_the_interval_holds_the_true_rate_about_95_times_of_100(
    shape: tuple[float, float], problems: int, samples: int
) -> None:
    draw = random.Random(f"{shape} {problems} {samples}")
    truth, held, times = shape[0] / sum(shape), 0, 600
    for _ in range(times):
        rates = [draw.betavariate(*shape) for _ in range(problems)]
        shares = [sum(draw.random() < rate for _ in range(samples)) / samples for rate in rates]
        found = estimate(shares, tries=problems * samples)
        assert found is not None
        held += found.low <= truth <= found.high
    assert held / times > 0.91


def test_a_summary_has_the_interval_of_each_pass_at_k() -> None:
    many = [result("a", Status.PASSED), *[result("a", Status.FAILED) for _ in range(4)], result("b", Status.PASSED)]
    summary = summarise([*many, result("c", Status.INFRASTRUCTURE)])
    assert summary.pass_at_k == {1: pytest.approx(0.6), 5: pytest.approx(1.0)}
    assert {k: found.problems for k, found in summary.pass_at.items()} == {1: 2, 5: 1}
    metrics = summary.metrics
    assert metrics["pass@1_low"] == summary.pass_at[1].low < 0.6 < summary.pass_at[1].high == metrics["pass@1_high"]
