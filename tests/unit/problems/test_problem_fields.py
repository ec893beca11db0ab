"""Fields of problems with a form of their own: checkers, and files in the working directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.problems import Case, Problem, load_problems
from sandrl.problems.checkers import FUNCTION, PROGRAM, Checker
from sandrl.problems.formats import own_row
from sandrl.problems.tasks.task import Environment, Task, TaskStep, Verifier

CASE = (Case("1", "1"),)


@pytest.mark.parametrize(
    ("code", "form"),
    [
        ("def check(input, expected, output): return True", FUNCTION),
        ("def check(a, b, c, strict=False): return True", FUNCTION),
        ("def check(*texts): return True", FUNCTION),
        ("import sys\nprint(len(sys.argv))", PROGRAM),
        ("from sys import argv\nprint(1)", PROGRAM),
        ("import argparse\nprint(1)", PROGRAM),
        ("import sys\ndef check(a, b, c): return True\nprint(check(*sys.argv[1:]))", PROGRAM),
    ],
)
def test_the_source_says_which_form_a_checker_has(code: str, form: str) -> None:
    checker = Checker(code)
    assert (checker.form, checker.row) == (form, code)


def test_a_form_that_is_given_counts_more_and_is_kept_in_rows() -> None:
    source = "import sys\ndef check(a, b, c): return len(sys.argv) == 1"
    checker = Checker.of({"code": source, "form": FUNCTION})
    assert checker.form == FUNCTION
    assert checker.row == {"code": source, "form": FUNCTION}
    problem = Problem("p", "", cases=CASE, checker={"code": "print(1)", "form": PROGRAM})  # type: ignore[arg-type]
    assert own_row(problem)["checker"] == {"code": "print(1)", "form": PROGRAM}


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ("", "checker", "is empty"),
        (" \n", "checker", "is empty"),
        ("def check(", "checker", "is not valid Python: '(' was never closed (line 1)"),
        ('#include "testlib.h"\nint main() {}', "checker", "is not Python: "),
        ("print(1)", "checker", "is neither a function check(input, expected, output) nor a program"),
        ("def check(output): return True", "checker", "is neither a function"),
        ("def check(a, b, c, d): return True", "checker", "is neither a function"),
        ("class C:\n    def check(self, a, b): return True", "checker", "is neither a function"),
        (7, "checker", "must be Python code, or an object with `code`, not 7"),
        ({"form": FUNCTION}, "checker.code", "is missing"),
        ({"code": "print(1)", "form": FUNCTION}, "checker", "defines no function check"),
        ({"code": "print(1)", "form": "testlib"}, "checker.form", "must be one of function, program"),
        ({"code": "print(1)", "language": "cpp"}, "checker.language", "is 'cpp': only checkers in Python are"),
        ({"code": "print(1)", "timeout": 3}, "checker.timeout", "is not a field of a checker"),
        ({"code": 1}, "checker.code", "must be a string"),
    ],
)
def test_what_is_no_checker_is_refused_with_its_field(given: Any, field: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        Problem("p", "", cases=CASE, checker=given)
    assert (caught.value.field, caught.value.reason.startswith(reason)) == (field, True), caught.value


CHECKER = "def check(a, b, c): return 1"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"tests": ["assert f() == 1"], "checker": CHECKER}, "checker"),
        ({"check": "exit_status", "checker": CHECKER}, "checker"),
        ({"cases": CASE, "checker_timeout_seconds": 3}, "checker_timeout_seconds"),
        ({"cases": CASE, "checker": CHECKER, "checker_timeout_seconds": 0}, "checker_timeout_seconds"),
    ],
)
def test_a_checker_belongs_to_cases_and_its_time_to_a_checker(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        Problem("p", "", **more)
    assert caught.value.field == field


def test_the_checker_is_part_of_what_decides_the_checks() -> None:
    given = (None, CHECKER, CHECKER.replace("1", "0"))
    made = [Problem("p", "", cases=CASE, checker=each) for each in given]  # type: ignore[arg-type]
    assert len({str(each.check_content) for each in made}) == 3


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


def test_the_content_of_a_problem_is_plain_and_changes_with_its_files_and_its_task() -> None:
    def content(**fields: Any) -> str:
        return json.dumps(Problem("p", "", **fields).content)

    assert content(cases=CASE, files={"a": b"\xff"}) != content(cases=CASE, files={"a": b"\xfe"})
    steps = (TaskStep("Do it.", verifier=Verifier(files=(("test.sh", b"\xff"),))),)
    task = Task("t", "harbor 1.3", "1" * 64, Environment("i"), steps, directory="/here")
    assert content(task=task) == content(task=replace(task, directory="/there"))
    assert content(task=task) != content(task=replace(task, digest="2" * 64))
