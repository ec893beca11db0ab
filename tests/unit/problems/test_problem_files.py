"""The field `files`: paths within the working directory, and contents as text or base64."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.problems import Case, Problem, load_problems
from sandrl.problems.formats import own_row

CASE = (Case("", "1"),)


def test_files_are_written_and_read_as_rows(tmp_path: Path) -> None:
    problem = Problem("p", "", cases=CASE, files={"b/c": b"\xff", "a": "ä"}, input_file="in")  # type: ignore[arg-type]
    assert problem.files == (("a", "ä".encode()), ("b/c", b"\xff"))
    row = own_row(problem)
    assert row["files"] == {"a": "ä", "b/c": {"base64": "/w=="}}
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps(row))
    assert load_problems(str(path)).problems["p"] == problem


def test_files_decide_the_checks() -> None:
    contents = [{}, {"a": "1"}, {"a": "2"}, {"b": "1"}]
    made = [Problem("p", "", cases=CASE, files=each) for each in contents]  # type: ignore[arg-type]
    made.append(Problem("p", "", cases=CASE, output_file="a"))
    assert len({json.dumps(each.check_content) for each in made}) == 5


@pytest.mark.parametrize(
    ("files", "field", "reason"),
    [
        ({"/etc/passwd": ""}, "files['/etc/passwd']", "must be a path within the working directory"),
        ({"a/../../b": ""}, "files['a/../../b']", "must be a path within the working directory"),
        ({"": ""}, "files['']", "must be a plain relative path"),
        ({"a//b": ""}, "files['a//b']", "must be a plain relative path"),
        ({"a\0b": ""}, "files['a\\x00b']", "must be a plain relative path"),
        ({"x" * 300: ""}, None, "has a name of more than 255 bytes"),
        ({"solution.py": ""}, "files['solution.py']", "is the file of the answer itself"),
        ({"a": "", "a/b": ""}, "files['a']", "is a file and a directory"),
        ({"a": 1}, "files['a']", 'must be text or {"base64": …}, not 1'),
        ({"a": {"base64": "!"}}, "files['a'].base64", "must be base64"),
        ({"a": {"base64": "AA==", "more": 1}}, "files['a']", "must be text or"),
        ({"a": "\ud800"}, "files['a']", "holds half of a surrogate pair"),
        ({"a": b"x" * (65 << 20)}, "files", "have more than 64 MiB in all"),
        (["a"], "files", "must be an object with contents by path"),
        ("a", "files", "must be an object with contents by path"),
        ({1: "a"}, "files[1]", "must be a path"),
    ],
    ids=lambda value: None if isinstance(value, dict | list) else str(value)[:30],
)
def test_files_that_cannot_be_laid_out_are_refused(files: Any, field: str | None, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        Problem("p", "", cases=CASE, files=files)
    assert caught.value.reason.startswith(reason)
    assert field is None or caught.value.field == field


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"cases": CASE, "input_file": "a/b"}, "input_file"),
        ({"cases": CASE, "output_file": "/a"}, "output_file"),
        ({"cases": CASE, "output_file": "solution.py"}, "output_file"),
        ({"cases": CASE, "input_file": "a", "files": {"a": "1"}}, "input_file"),
        ({"tests": ["assert f() == 1"], "input_file": "a"}, "input_file"),
    ],
    ids=lambda value: None if isinstance(value, dict | list) else str(value)[:30],
)
def test_names_of_input_and_output_are_plain_and_for_cases(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        Problem("p", "", **more)
    assert caught.value.field == field
