"""Time limits of rows, in all forms that sets have."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems.formats import parse_problem
from sandrl.problems.formats.texts import check_timeout

CODE_CONTESTS = {"name": "1", "description": "", "public_tests": {"input": ["1"], "output": ["1"]}}
TACO = {"question": "", "input_output": {"inputs": ["1"], "outputs": ["1"]}}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None), (0, None), ({"seconds": 0, "nanos": 0}, None), ("None", None), ("a while", None),
        (1, 4.0), (0.5, 4.0), (2, 8.0), ("2.0 seconds", 8.0), ("1 second", 4.0), ("3s", 12.0), ("5", 20.0),
        ({"seconds": 2, "nanos": 500_000_000}, 10.0), ({"seconds": 3}, 12.0), ({"nanos": None, "seconds": 2}, 8.0),
    ],
)  # fmt: skip
def test_a_check_may_take_four_times_what_the_set_allows(given: Any, seconds: float | None) -> None:
    assert check_timeout(given, "time_limit") == seconds
    for row in (CODE_CONTESTS, TACO):
        problem = parse_problem(Row(1, {**row, "time_limit": given}), "f", "set").problem
        assert (problem.check_timeout_seconds, problem.timeout_seconds) == (seconds, None)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (True, "time_limit': must be a number of seconds, not a boolean"),
        ([1], "time_limit': must be a number of seconds, not an array"),
        (-1, "time_limit': must be a number of seconds, not -1"),
        (10**400, "time_limit': must be a number of seconds, not 1000"),
        (1e9, "time_limit': must be at least 0.01 seconds and at most a day"),
        ("9" * 400, "time_limit': must be at least 0.01 seconds and at most a day"),
        ({"seconds": "1", "nanos": []}, "time_limit.nanos': must be a number of seconds, not an array"),
    ],
    ids=["boolean", "array", "negative", "digits", "years", "text", "nanos"],
)
def test_what_is_no_time_is_refused_by_name(given: Any, message: str) -> None:
    for row in (CODE_CONTESTS, TACO):
        with pytest.raises(InputError) as caught:
            parse_problem(Row(1, {**row, "time_limit": given}), "f", "set")
        assert message in caught.value.message
