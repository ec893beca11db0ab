"""Which completions a second opinion is asked about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandrl.scoring.opinions import digest, is_chosen


@given(st.text(), st.text(), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_rate_asks_about_those_of_a_lower_rate_and_more(
    task_id: str, code: str, one: float, other: float
) -> None:
    key = digest(task_id, code)
    low, high = sorted((one, other))
    assert is_chosen(key, low) <= is_chosen(key, high)
    assert not is_chosen(key, 0.0)
    assert is_chosen(key, 1.0)


def test_problem_and_code_are_told_apart_and_lone_surrogates_are_no_error() -> None:
    assert digest("a", "bc") != digest("ab", "c")
    assert digest("a", "\ud83d") != digest("a", "\ud83e")


def test_the_share_that_is_asked_about_is_the_rate() -> None:
    keys = [digest(f"problem-{number % 7}", f"x = {number}") for number in range(20_000)]
    for rate in (0.01, 0.1, 0.5, 0.9):
        share = sum(is_chosen(key, rate) for key in keys) / len(keys)
        assert abs(share - rate) < 5 * (rate * (1 - rate) / len(keys)) ** 0.5
