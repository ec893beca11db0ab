"""Rows that come again and again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandrl.errors import InputError
from sandrl.integrations.problems import problem_of, problem_of_truth
from sandrl.problems import Problem
from sandrl.problems.store import InternedProblems, memory_of

ROW = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}


def problem(number: int) -> Problem:
    return Problem(f"p{number}", "Add one.", tests=(f"assert f(1) == {number}",))


def test_the_same_content_is_one_object_whatever_the_order_of_its_fields() -> None:
    assert problem_of(ROW) is problem_of(dict(reversed(ROW.items())))
    assert problem_of(ROW) is not problem_of({**ROW, "tests": ["assert f(1) == 3"]})
    assert problem_of_truth({"assert_case": ["assert f(1) == 2"]}) is problem_of_truth(
        '{"assert_case": ["assert f(1) == 2"]}'
    )


def test_threads_that_ask_at_once_get_one_object() -> None:
    interned, together = InternedProblems(), threading.Barrier(8)

    def make() -> Problem:
        together.wait()
        return problem(1)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: interned.of("content", make), range(8)))
    assert len(set(map(id, found))) == 1


def test_memory_is_bounded_and_those_used_longest_ago_make_room() -> None:
    interned = InternedProblems(max_bytes=3 * memory_of(problem(1)))
    made: list[int] = []

    def of(number: int) -> Problem:
        def make() -> Problem:
            made.append(number)
            return problem(number)

        return interned.of(number, make)

    for number in (1, 2, 3, 1, 4, 1, 3, 2):
        assert of(number) == problem(number)
    assert made == [1, 2, 3, 4, 2]


def test_one_that_is_larger_than_all_memory_is_kept_until_the_next() -> None:
    interned = InternedProblems(max_bytes=1)
    assert interned.of("a", lambda: problem(1)) is interned.of("a", lambda: problem(2))


def test_what_is_no_problem_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="has no check"):
            problem_of({"task_id": "inc", "prompt": "Add one."})


def test_content_that_json_cannot_hold_is_made_each_time() -> None:
    interned = InternedProblems()
    assert interned.of({1, 2}, lambda: problem(1)) is not interned.of({1, 2}, lambda: problem(1))
