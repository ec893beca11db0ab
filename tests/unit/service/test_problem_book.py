"""The problems of a service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandrl.config.serve import RequestOptions, ServeConfig
from sandrl.errors import InputError
from sandrl.problems import Problem
from sandrl.service.problems import ProblemBook, load_sets

ROW = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}
USUAL = RequestOptions()


def test_the_same_row_is_one_object_and_another_one_is_not() -> None:
    book = ProblemBook({})
    first = book.inline(ROW, "problems[0]", USUAL)
    assert book.inline(dict(reversed(ROW.items())), "problems[7]", USUAL) is first
    assert book.inline({**ROW, "prompt": "x"}, "problems[0]", USUAL) is not first
    assert book.inline(ROW, "problems[0]", RequestOptions(prelude="import math")) is not first


def test_rows_of_requests_take_bounded_memory() -> None:
    book = ProblemBook({}, max_bytes=100_000)
    for number in range(200):
        book.inline({**ROW, "task_id": str(number), "prompt": "x" * 5000}, "problems[0]", USUAL)
    assert book._interned._bytes <= 100_000
    assert 0 < len(book._interned._known) < 25


def test_a_wrong_row_is_named_by_its_place() -> None:
    with pytest.raises(InputError, match=r"problems\[1\]"):
        ProblemBook({}).of_request([ROW, {"task_id": "x"}], USUAL)
    with pytest.raises(InputError, match=r"problems\[1\].*already used"):
        ProblemBook({}).of_request([ROW, {**ROW, "prompt": "another"}], USUAL)
    with pytest.raises(InputError, match=r"problems\[0\]"):
        ProblemBook({}).of_request([3], USUAL)


def test_options_of_a_request_apply_to_problems_that_were_loaded() -> None:
    cases = tuple({"stdin": str(number), "stdout": "1"} for number in range(9))
    many = Problem("many", "", cases=cases)  # type: ignore[arg-type]
    book = ProblemBook({"many": many})
    assert book.named("many", book.loaded, USUAL) is many
    fewer = book.named("many", book.loaded, RequestOptions(max_cases=2, prelude="import math"))
    assert (fewer.check_count, fewer.prelude) == (2, "import math")
    assert book.named("many", book.loaded, RequestOptions(max_cases=2, prelude="import math")) is fewer


def test_sets_that_have_different_problems_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps({**ROW, "prompt": str(number)}) + "\n")
        paths.append(str(path))
    with pytest.raises(InputError, match="'inc' names different problems in"):
        load_sets(ServeConfig(problems=tuple(paths)))
    assert set(load_sets(ServeConfig(problems=(paths[0], paths[0])))) == {"inc"}
