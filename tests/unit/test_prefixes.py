"""Ids by their beginnings."""

from __future__ import annotations

import pytest

from sandrl.errors import InputError
from sandrl.prefixes import find_id

JOBS = ["job-ab12cd34", "job-ab99", "job-ab99ff", "other"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("job-ab1", "job-ab12cd34"),
        ("ab12", "job-ab12cd34"),
        ("job-ab99", "job-ab99"),
        ("ab99", "job-ab99"),
        ("oth", "other"),
        ("nope", None),
        ("", None),
    ],
)
def test_a_whole_id_or_the_beginning_of_one_means_it(given: str, found: str | None) -> None:
    assert find_id(given, JOBS, noun="job", optional="job-") == found


def test_the_beginning_of_several_is_refused_with_the_candidates() -> None:
    with pytest.raises(InputError, match="several job ids: job-ab12cd34, job-ab99, job-ab99ff") as refused:
        find_id("ab", JOBS, noun="job", optional="job-")
    assert refused.value.hint == "give more characters of the id"
