"""Problems from rows of a file: what they become, what is refused, and which of many cases are kept."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError, UsageError
from sandrl.problems import Call, Case, Problem, load_problems, write_problems
from sandrl.problems.case_choice import chosen_positions, with_most_cases
from sandrl.problems.preludes import STANDARD

GOOD: dict[str, Any] = {"task_id": "double", "prompt": "Double it.", "tests": ["assert double(2) == 4"]}


def written(path: Path, *rows: dict[str, Any] | bytes) -> Path:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def only_problem(path: Path) -> Problem:
    [problem] = load_problems(path).problems.values()
    return problem


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load_problems(path)
    assert "\n" not in str(caught.value)
    return caught.value


def test_rows_of_every_format_can_have_the_standard_prelude(tmp_path: Path) -> None:
    rows = (
        {**GOOD, "prelude": "standard"},
        {"task_id": 2, "text": "", "test_list": ["assert f() == 1"], "prelude": "standard"},
        {"task_id": 3, "prompt": "", "test": "def check(f): pass", "entry_point": "f", "prelude": "standard"},
    )
    problems = load_problems(written(tmp_path / "p.jsonl", *rows)).problems.values()
    assert {problem.prelude for problem in problems} == {STANDARD}
    assert only_problem(written(tmp_path / "none.jsonl", {**GOOD, "prelude": None})).prelude == ""


def test_a_prelude_that_is_not_python_is_refused(tmp_path: Path) -> None:
    error = refusal(written(tmp_path / "p.jsonl", {**GOOD, "prelude": "x = = 1"}))
    assert "field 'prelude': must be `standard` or valid Python: invalid syntax" in str(error)


def test_cases_and_the_exit_status_are_checks_too(tmp_path: Path) -> None:
    cases = {"task_id": "echo", "prompt": "Echo.", "cases": [{"stdin": "a", "stdout": "a"}, {"stdout": ""}]}
    script: dict[str, Any] = {"task_id": "run", "prompt": "Run.", "check": "exit_status", "tests": [], "cases": None}
    problems = load_problems(written(tmp_path / "p.jsonl", cases, script)).problems
    assert list(problems) == ["echo", "run"]
    assert problems["echo"].cases == (Case("a", "a"), Case("", ""))
    assert problems["echo"].tolerance is None
    assert problems["run"].check == "exit_status"


def test_a_row_of_sanitized_mbpp_has_its_imports_as_setup(tmp_path: Path) -> None:
    row = {
        "task_id": 12, "prompt": "Double it.", "code": "def double(n): return 2 * n", "source_file": "x",
        "test_imports": ["import math", "import re"], "test_list": ["assert double(2) == 4"],
    }  # fmt: skip
    assert only_problem(written(tmp_path / "p.jsonl", row)) == Problem(
        "12", "Double it.", ("assert double(2) == 4",), setup="import math\nimport re", entry_point="double",
        reference="def double(n): return 2 * n",
    )  # fmt: skip


def test_a_humaneval_row_becomes_one_test_that_really_checks(tmp_path: Path) -> None:
    row = {
        "task_id": "HumanEval/0", "prompt": 'def double(n):\n    """Double it."""\n', "entry_point": "double",
        "canonical_solution": "    return 2 * n\n", "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    }  # fmt: skip
    problem = only_problem(written(tmp_path / "p.jsonl", row))
    [test] = problem.tests
    namespace: dict[str, Any] = {}
    exec(str(problem.reference), namespace)
    exec(test, namespace)
    with pytest.raises(AssertionError):
        exec(test, {"double": lambda n: n})


def test_helpers_that_a_humaneval_prompt_gives_are_the_checks_own(tmp_path: Path) -> None:
    prompt = 'def shift(s):\n    return s[1:] + s[:1]\n\n\ndef unshift(s):\n    """Undo it."""\n'
    row = {
        "task_id": "HumanEval/50", "prompt": prompt, "entry_point": "unshift",
        "test": "def check(candidate):\n    assert candidate(shift('abc')) == 'abc'\n",
    }  # fmt: skip
    assert only_problem(written(tmp_path / "p.jsonl", row)).setup == "def shift(s):\n    return s[1:] + s[:1]"
    row["prompt"] = "Undo what shift does.\n" + prompt
    assert only_problem(written(tmp_path / "p.jsonl", row)).setup == ""


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"task_id": ""}, "field 'task_id'", "must not be empty"),
        ({"task_id": 1.5}, "field 'task_id'", "must be a string, not a number"),
        ({"prompt": 3}, "field 'prompt'", "must be a string, not an integer"),
        ({"tests": "assert True"}, "field 'tests'", "must be an array, not a string"),
        ({"tests": ["assert f()", 3]}, "field 'tests[1]'", "must be a string, not an integer"),
        ({"tests": ["assert f()", " \n"]}, "field 'tests[1]'", "checks nothing"),
        ({"cases": [{"stdin": "1"}]}, "field 'cases[0].stdout'", "is missing"),
        ({"cases": ["1"]}, "field 'cases[0]'", "must be an object, not a string"),
        ({"check": "exit"}, "field 'check'", "must be 'exit_status'"),
        ({"timeout_seconds": 0}, "field 'timeout_seconds'", "must be at least 0.01 seconds"),
        ({"tolerance": 0.1}, "field 'tolerance'", "must be"),
        ({"tolerance": {"absolute": "1"}}, "field 'tolerance.absolute'", "must be a number, not a string"),
        ({"tolerance": {"relative": -1}}, "field 'tolerance.relative'", "must be a finite number, 0 or more"),
        ({"tolerance": {"relative": 0.1}}, "field 'tolerance'", "has an effect on cases and calls only"),
        ({"timeout_seconds": True}, "field 'timeout_seconds'", "must be a number, not a boolean"),
        ({"timeout_seconds": "3"}, "field 'timeout_seconds'", "must be a number, not a string"),
        ({"tests": []}, "", "the problem 'double' has no check"),
        ({"check": "exit_status"}, "", "has checks of several kinds (tests, check)"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(tmp_path: Path, change: dict[str, Any], place: str, reason: str) -> None:
    path = written(tmp_path / "p.jsonl", {**GOOD, "task_id": "first"}, {**GOOD, **change})
    message = str(refusal(path))
    assert message.startswith(f"{path}:2: {place}")
    assert reason in message


def test_a_problem_without_a_check_is_told_what_would_be_one(tmp_path: Path) -> None:
    hint = str(refusal(written(tmp_path / "p.jsonl", {"task_id": "a", "prompt": "b"})).hint)
    assert all(word in hint for word in ("tests", "cases", "exit_status"))


def test_a_duplicate_names_the_line_that_has_the_id(tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", GOOD, {**GOOD, "task_id": "other"}, GOOD)
    assert str(refusal(path)) == f"{path}:3: field 'task_id': 'double' is already used in line 1; it must be unique"


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl")
    assert str(refusal(path)) == f"{path}: the file is empty: it has no problems"


def test_bad_rows_can_be_skipped_and_are_counted(tmp_path: Path) -> None:
    bad = (b"{", b'{"task_id": "\xff"}', b"x" * 9_000_000, {"task_id": "no-check", "prompt": ""}, GOOD)
    path = written(tmp_path / "p.jsonl", GOOD, *bad, {**GOOD, "task_id": "last"})
    loaded = load_problems(path, skip_bad_rows=True)
    assert list(loaded.problems) == ["double", "last"]
    assert [error.line for error in loaded.skipped] == [2, 3, 4, 5, 6]


def test_a_file_of_nothing_but_bad_rows_is_refused_even_when_they_may_be_skipped(tmp_path: Path) -> None:
    path = written(tmp_path / "p.jsonl", b"{", b"[")
    with pytest.raises(InputError, match=r"no problems are left: all 2 rows are bad; the first error is: .*p.jsonl:1"):
        load_problems(path, skip_bad_rows=True)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("nowhere/p.jsonl", "nowhere/p.jsonl: no such file"),
        ("nowhere", "there is no problem set or file 'nowhere'"),
        ("bundled:test", "the set bundled has no split 'test'"),
        ("a/b/c", "there is no problem set or file 'a/b/c'"),
        ("../nowhere", "there is no problem set or file '../nowhere'"),
        ("mbpp:dev", "the set mbpp has no split 'dev'"),
        ("nowhere.jsonl:test", "nowhere.jsonl: no such file"),
        ("/proc/self", "/proc/self: the directory has no file that ends in .jsonl, .jsonl.gz, .json, .csv, .parquet"),
    ],
)
def test_a_source_that_cannot_be_used_says_so(source: str, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        load_problems(source)
    assert str(caught.value) == reason
    assert source != "nowhere" or "`bundled`, `toy`, `tiny`, `mbpp`, `humaneval`" in str(caught.value.hint)


def test_a_prelude_for_the_others_leaves_those_of_problems_alone(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [{"task_id": "own", "prelude": "x = 1"}, {"task_id": "none"}]
    path.write_text("".join(json.dumps({**row, "prompt": "", "tests": ["assert x"]}) + "\n" for row in rows))
    found = load_problems(path, prelude="x = 2").problems
    assert {name: problem.prelude for name, problem in found.items()} == {"own": "x = 1", "none": "x = 2"}
    with pytest.raises(UsageError, match="prelude must be `standard` or valid Python") as caught:
        load_problems(path, prelude="x =")
    assert caught.value.fields == ("prelude",)


LENGTHS = [2, 1, 1, 9, 3, 9, 7, 1]


@pytest.mark.parametrize(
    ("most", "positions"),
    [(1, [0]), (2, [0, 3]), (3, [0, 1, 3]), (4, [0, 1, 3, 5]), (6, [0, 1, 2, 3, 5, 6]), (8, list(range(8)))],
)
def test_the_first_cases_and_those_with_the_longest_inputs_are_taken_in_turn(most: int, positions: list[int]) -> None:
    assert chosen_positions(LENGTHS, most) == positions


def test_fewer_cases_are_among_more_of_them() -> None:
    chosen = [set(chosen_positions(LENGTHS, most)) for most in range(1, 10)]
    assert [len(positions) for positions in chosen] == [1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert all(fewer <= more for fewer, more in pairwise(chosen))


def test_cases_and_calls_are_bounded_and_tests_are_not() -> None:
    cases = Problem("p", "", cases=tuple(Case("1" * length, "x") for length in LENGTHS))
    assert with_most_cases(cases, 2).cases == (cases.cases[0], cases.cases[3])
    calls = Problem("p", "", fn="f", calls=tuple(Call.of([10**length], length) for length in LENGTHS))
    assert with_most_cases(calls, 2).calls == (calls.calls[0], calls.calls[3])
    tests = Problem("p", "", tests=("assert f(1)", "assert f(2)"))
    for problem, most in ((tests, 1), (cases, 8), (cases, 9), (calls, None)):
        assert with_most_cases(problem, most) is problem


def test_a_file_is_loaded_with_so_many_cases_of_each_problem(tmp_path: Path) -> None:
    path = tmp_path / "problems.jsonl"
    write_problems([Problem("p", "", cases=tuple(Case("1" * length, "x") for length in LENGTHS))], path)
    assert load_problems(path).problems["p"].check_count == len(LENGTHS)
    assert [len(case.stdin) for case in load_problems(path, max_cases=3).problems["p"].cases] == [2, 1, 9]
