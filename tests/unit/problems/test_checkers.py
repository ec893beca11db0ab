"""Checkers as fields: which form a source has, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.problems import Case, Problem
from sandrl.problems.checkers import FUNCTION, PROGRAM, Checker
from sandrl.problems.formats import own_row

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
