from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.problems import Completion, load_completions


def written(path: Path, *rows: dict[str, Any] | bytes) -> Path:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def refusal(path: Path, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        load_completions(path, **options)
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_row_is_text_or_code(tmp_path: Path) -> None:
    path = written(
        tmp_path / "c.jsonl", {"task_id": "a", "completion": "text"}, {"task_id": 2, "code": "pass", "id": 7}
    )
    assert load_completions(path).completions == (
        Completion(id="a", task_id="a", completion="text"),
        Completion(id="7", task_id="2", code="pass"),
    )


def test_an_id_given_twice_names_the_line_that_has_it(tmp_path: Path) -> None:
    row = {"task_id": "a", "completion": "", "id": "x"}
    path = written(tmp_path / "c.jsonl", row, row)
    assert str(refusal(path)) == f"{path}:2: field 'id': 'x' is already used in line 1; it must be unique"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"task_id": "a", "completion": [["x"], 3]}, "field 'completion[1]': must be a string, or a list"),
        ({"task_id": "a", "code": "", "completion": ""}, "has both `completion` and `code`"),
        (b'{"task_id": "a", "comp', "broken JSON"),
        (b'{"task_id": "a", "completion": "\xe9"}', "invalid UTF-8 at byte 33 of the line"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, row: dict[str, Any] | bytes, message: str) -> None:
    path = written(tmp_path / "c.jsonl", {"task_id": "a", "completion": ""}, row)
    error = str(refusal(path))
    assert error.startswith(f"{path}:2: ")
    assert message in error
    loaded = load_completions(path, skip_bad_rows=True)
    assert (len(loaded.completions), len(loaded.skipped)) == (1, 1)


NUMBERED = {f"{name}/{number}": None for name, last in (("train", 3), ("test", 12)) for number in range(1, last + 1)}
FORM = "the problems are named 'train/1' to 'train/3', 'test/1' to 'test/12'"


@pytest.mark.parametrize(
    ("task_id", "nearest"),
    [
        ("7", "test/7"),
        (3, "train/3"),
        ("Test/12", "test/12"),
        (" train/2", "train/2"),
        ("train_2", "train/2"),
        ("test-2", "test/2"),
        ("train/12", None),
        ("test/13", None),
        ("train/30", None),
        (0, None),
        ("\u0663", None),
        ("trian/1", "train/1"),
    ],
)
def test_names_of_numbered_problems_are_shown_with_the_one_of_that_number(
    tmp_path: Path, task_id: str | int, nearest: str | None
) -> None:
    path = written(tmp_path / "c.jsonl", {"task_id": task_id, "completion": ""})
    error = refusal(path, task_ids=NUMBERED)
    suggestion = f"; did you mean {nearest!r}?" if nearest is not None else ""
    assert error.reason == f"there is no problem {str(task_id)!r}{suggestion}"
    assert error.hint == f"{FORM}; select the matching set with `problems`"


@pytest.mark.parametrize(
    ("known", "form"),
    [
        (["a"], "'a'"),
        ({"c", "b", "a"}, "'a', 'b', 'c'"),
        (["x", "y", "z", "w"], "'x', 'y', 'z', … (4 in all)"),
        (["HumanEval/0", "HumanEval/163"], "'HumanEval/0' to 'HumanEval/163'"),
        (["a/1", "b"], "'a/1', 'b'"),
        ([f"{name}/1" for name in "abcd"], "'a/1', 'b/1', 'c/1', … (4 in all)"),
        (["a/01", "a/02"], "'a/01', 'a/02'"),
        (["x" * 100], f"'{'x' * 59}…'"),
    ],
)
def test_the_names_that_there_are_are_shown_in_a_few_words(tmp_path: Path, known: Any, form: str) -> None:
    path = written(tmp_path / "c.jsonl", {"task_id": "?", "completion": ""})
    assert str(refusal(path, task_ids=known).hint).startswith(f"the problems are named {form}; select")


def test_a_number_is_that_of_a_problem_which_has_nothing_else_in_its_name(tmp_path: Path) -> None:
    path = written(tmp_path / "c.jsonl", {"task_id": "Mbpp/11", "completion": ""})
    assert refusal(path, task_ids=["2", "11", "12"]).reason == "there is no problem 'Mbpp/11'; did you mean '11'?"


def test_many_wrong_names_among_many_problems_take_no_time(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"task_id": "first", "completion": ""}]
    rows += [{"task_id": f"nothing like it {n}x", "completion": ""} for n in range(500)]
    path = written(tmp_path / "c.jsonl", *rows)
    known = dict.fromkeys(["first", *(f"some problem {n}" for n in range(100_000))])
    assert len(load_completions(path, task_ids=known, skip_bad_rows=True).skipped) == 500


@pytest.mark.parametrize("field", ["id", "question_id", "problem_id", "name"])
def test_another_field_names_the_problem_where_there_is_no_task_id(tmp_path: Path, field: str) -> None:
    row = {"task_id": None, "code": "", "id": 7, field: "train/1"}
    [found] = load_completions(written(tmp_path / "c.jsonl", row), task_ids=NUMBERED).completions
    assert found.task_id == "train/1"
    error = refusal(written(tmp_path / "c.jsonl", {"code": "", field: 3}), task_ids=NUMBERED)
    assert (error.field, error.reason) == (field, "there is no problem '3'; did you mean 'train/3'?")


def test_standard_input_is_named_as_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{\n")))
    with pytest.raises(InputError, match=r"^-:1: broken JSON"):
        load_completions("-")
