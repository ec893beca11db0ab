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


def test_an_empty_completion_is_a_completion(tmp_path: Path) -> None:
    [completion] = load_completions(written(tmp_path / "c.jsonl", {"task_id": "a", "completion": ""})).completions
    assert completion.completion == ""


def test_samples_of_one_problem_are_numbered_and_ids_stay_unique(tmp_path: Path) -> None:
    rows = [{"task_id": task, "completion": ""} for task in ("a", "b", "a", "a")]
    path = written(tmp_path / "c.jsonl", *rows, {"task_id": "c", "completion": "", "id": "a#2"})
    assert [each.id for each in load_completions(path).completions] == ["a#1", "b", "a#3", "a#4", "a#2"]


def test_an_id_given_twice_names_the_line_that_has_it(tmp_path: Path) -> None:
    row = {"task_id": "a", "completion": "", "id": "x"}
    path = written(tmp_path / "c.jsonl", row, row)
    assert str(refusal(path)) == f"{path}:2: field 'id': 'x' is taken by line 1"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"completion": "x"}, "field 'task_id': is missing"),
        ({"task_id": "a"}, "field 'completion': is missing (or `code`, for code to be taken as it is)"),
        (
            {"task_id": "a", "completion": None},
            "field 'completion': is missing (or `code`, for code to be taken as it is)",
        ),
        ({"task_id": "a", "completion": ["x"]}, "field 'completion': must be a string, not an array"),
        ({"task_id": "a", "code": 3}, "field 'code': must be a string, not an integer"),
        ({"task_id": "a", "code": "", "completion": ""}, "has both `completion` and `code`"),
        (b'{"task_id": "a", "comp', "broken JSON"),
        (b'{"task_id": "a", "completion": "\xe9"}', "invalid UTF-8 at byte 33 of the line"),
        (b'{"completion": "' + b"x" * 10_000_000, "the line is longer than 8 MiB"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, row: dict[str, Any] | bytes, message: str) -> None:
    path = written(tmp_path / "c.jsonl", {"task_id": "a", "completion": ""}, row)
    error = str(refusal(path))
    assert error.startswith(f"{path}:2: ")
    assert message in error
    loaded = load_completions(path, skip_bad_rows=True)
    assert (len(loaded.completions), len(loaded.skipped)) == (1, 1)


def test_a_completion_of_an_unknown_problem_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    path = written(tmp_path / "c.jsonl", {"task_id": "slow-sun", "completion": ""})
    error = refusal(path, task_ids={"slow-sum", "string-ops"})
    assert str(error) == f"{path}:1: field 'task_id': no problem is called 'slow-sun'; is it 'slow-sum'?"
    assert "`problems`" in str(error.hint)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "c.jsonl")
    assert str(refusal(path)) == f"{path}: the file is empty: it has no completions"


def test_standard_input_is_read_and_named_as_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    feed(b'{"task_id": "a", "completion": "x"}\n')
    assert load_completions("-").completions == (Completion("a", "a", completion="x"),)
    feed(b"{\n")
    with pytest.raises(InputError, match=r"^-:1: broken JSON"):
        load_completions("-")
