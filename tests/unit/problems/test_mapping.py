"""Rows in no known format, with the fields that the user names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError, UsageError
from sandrl.problems import Call, Case, Problem, Tolerance, load_problems


def only(tmp_path: Path, row: dict[str, Any], *fields: str) -> Problem:
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps(row))
    [problem] = load_problems(path, fields=fields).problems.values()
    return problem


def test_fields_may_have_other_names_and_the_others_stay(tmp_path: Path) -> None:
    row = {"question": "Add one.", "asserts": ["assert f(1) == 2"], "entry_point": "f", "note": "x"}
    problem = only(tmp_path, row, "prompt=question", "tests=asserts")
    assert problem == Problem("mine/1", "Add one.", tests=("assert f(1) == 2",), entry_point="f")


def test_paths_go_into_objects_arrays_and_texts_of_json(tmp_path: Path) -> None:
    row = {
        "data": {"messages": [{"role": "user", "content": "Add one."}], "uid": 7},
        "info": json.dumps({"grading": json.dumps({"asserts": ["assert f(1) == 2"]})}),
    }
    fields = ("prompt=data.messages.0.content", "tests=info.grading.asserts", "task_id=data.uid")
    assert only(tmp_path, row, *fields) == Problem("7", "Add one.", tests=("assert f(1) == 2",))
    assert only(tmp_path, row, "prompt=data.messages", *fields[1:]).prompt == "Add one."


@pytest.mark.parametrize("tests", [["assert f(1) == 2"], '["assert f(1) == 2"]', "assert f(1) == 2"])
def test_tests_may_be_an_array_a_text_of_one_or_one_text(tmp_path: Path, tests: object) -> None:
    assert only(tmp_path, {"q": "?", "t": tests}, "prompt=q", "tests=t").tests == ("assert f(1) == 2",)


@pytest.mark.parametrize(
    "tests",
    [
        [["1", "2"]],
        {"inputs": ["1"], "outputs": ["2"]},
        '[{"input": "1", "output": "2"}]',
        [{"stdin": "1", "stdout": "2"}],
    ],
)
def test_cases_may_have_every_shape_that_a_format_has(tmp_path: Path, tests: object) -> None:
    problem = only(tmp_path, {"q": "?", "io": {"tests": tests}}, "prompt=q", "cases=io.tests")
    assert problem.cases == (Case("1", "2"),)


CALLS = (Call.of([1, 2], 3), Call.of([[4], "5"], [4, "5"]))


@pytest.mark.parametrize(
    "tests",
    [
        [[[1, 2], 3], [[[4], "5"], [4, "5"]]],
        '[[[1, 2], 3], [[[4], "5"], [4, "5"]]]',
        [{"input": [1, 2], "output": 3}, {"input": [[4], "5"], "output": [4, "5"]}],
        [{"args": [1, 2], "expected": 3}, {"arguments": [[4], "5"], "expected": [4, "5"]}],
        [{"input": "1\n2", "output": "3"}, {"input": '[4]\n"5"', "output": '[4, "5"]'}],
        {"inputs": [[1, 2], [[4], "5"]], "outputs": [3, [4, "5"]]},
    ],
)
def test_cases_of_a_function_that_the_row_names_are_calls(tmp_path: Path, tests: object) -> None:
    row = {"q": "?", "io": {"tests": tests, "name": "f"}}
    problem = only(tmp_path, row, "prompt=q", "cases=io.tests", "fn=io.name")
    assert problem == Problem("mine/1", "?", fn="f", calls=CALLS)


def test_a_method_of_solution_is_called_where_the_row_s_code_or_its_name_says_so(tmp_path: Path) -> None:
    row = {"q": "?", "t": [[[1], 2]], "name": "f", "code": "class Solution:\n    def f(self, n):\n"}
    fields = ("prompt=q", "cases=t", "fn=name")
    assert only(tmp_path, row, *fields).fn == "f"
    assert only(tmp_path, row, *fields, "starter_code=code").fn == "Solution.f"
    assert only(tmp_path, {**row, "name": "Stack.f"}, *fields, "starter_code=code").fn == "Stack.f"


def test_rows_of_one_file_may_be_runs_and_calls_and_may_lack_what_is_optional(tmp_path: Path) -> None:
    rows = [
        {"q": "?", "t": [["1", "2.5"]], "fn_name": None},
        {"q": "?", "t": [["1", "2"]], "solution": "print(2)"},
        {"q": "?", "t": [[[1], 2]], "fn_name": "f"},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    loaded = load_problems(path, fields=["prompt=q", "cases=t", "fn=fn_name", "reference=solution"])
    assert list(loaded.problems.values()) == [
        Problem("mine/1", "?", cases=(Case("1", "2.5"),), tolerance=Tolerance(1e-6)),
        Problem("mine/2", "?", cases=(Case("1", "2"),), reference="print(2)"),
        Problem("mine/3", "?", fn="f", calls=(Call.of([1], 2),)),
    ]
    with pytest.raises(InputError) as caught:
        load_problems(path, fields=["prompt=q", "cases=t", "fn=fn_name", "reference=solutoin"])
    assert caught.value.message == (
        f"{path}: field 'solutoin': is missing in every row; the first has `q`, `t`, `fn_name`"
    )


def test_a_constant_is_the_same_in_all_rows_and_may_be_text_or_json(tmp_path: Path) -> None:
    row = {"q": "?", "t": [[[1], 2]], "timeout_seconds": 1}
    fields = ("prompt=q", "cases=t", "fn:=f", "timeout_seconds:=7", 'tolerance:={"absolute": 0.5}', "entry_point:=f=g")
    assert only(tmp_path, row, *fields) == Problem(
        "mine/1", "?", fn="f", calls=(Call.of([1], 2),), timeout_seconds=7, tolerance=Tolerance(0.5), entry_point="f=g"
    )
    assert only(tmp_path, {"q": "?"}, "prompt=q", "check:=exit_status").check == "exit_status"
    with pytest.raises(InputError, match="field 'timeout_seconds': must be a number, not a string"):
        only(tmp_path, row, *fields[:3], "timeout_seconds:=long")


def test_a_field_that_is_meant_counts_in_place_of_the_row_s_own(tmp_path: Path) -> None:
    row = {"prompt": "no", "q": "?", "tests": ["assert g()"], "t": ["assert f()"], "reference": "no", "r": None}
    problem = only(tmp_path, row, "prompt=q", "tests=t", "reference=r")
    assert problem == Problem("mine/1", "?", tests=("assert f()",))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"t": [[[1, 2], 3]]}, "field 't[0][0]': has the values of a call, but the function is not named"),
        ({"t": [["1", 3], ["1", True]]}, "field 't[1][0]': has the values of a call, but the function is not named"),
        ({"t": [[["1"], ["2"]], [{"a": 1}, "2"]]}, "field 't[1][0]': has the values of a call, but the function is"),
        ({"t": [["[1, 2", 3]], "n": "f"}, "field 't[0][0]': must be an array of arguments, or text with a JSON value"),
        ({"t": [[{"a": 1}, 3]], "n": "f"}, "field 't[0][0]': must be an array of arguments, not an object"),
        ({"t": [[[1], 3, 4]], "n": "f"}, "field 't[0]': must be an object with an input and an output, not an array"),
        ({"t": [[[1], 3]], "n": 5}, "field 'n': must be the name of a function, or Class.method, not 5"),
        ({"t": [[[1], 3]], "n": "f(x)"}, "field 'n': must be the name of a function, or Class.method, not 'f(x)'"),
        ({"t": 5, "n": "f"}, "field 't': must be an array or an object of tests, not an integer"),
        ({"t": [], "n": "f"}, "field 't': has no tests"),
        ({"t": None, "n": "f"}, "the nearest is sandrl's own, which also needs `tests` or `cases` or `check`"),
        ({"t": [[[1], 3]], "n": "f", "q": None}, "field 'q': is null; a problem needs a prompt"),
        ({"t": [[[1], 3]], "n": "f", "q": 5}, "field 'q': must be a string, not an integer"),
        ({"t": [[[1], 3]], "n": "f", "r": ["x"]}, "field 'r': must be a string, not an array"),
        ({"t": [[[1], 3]], "n": "f", "id": [5]}, "field 'id': must be a string, not an array"),
    ],
)
def test_what_is_wrong_in_a_mapped_row_is_named_by_the_row_s_own_field(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    filled = {"q": "?", "n": None, "r": None, "id": None, **row}
    with pytest.raises(InputError) as caught:
        only(tmp_path, filled, "prompt=q", "cases=t", "fn=n", "reference=r", "task_id=id")
    assert caught.value.message.startswith(f"{tmp_path / 'mine.jsonl'}:1: ")
    assert message in caught.value.message


def test_tests_that_are_no_asserts_lead_to_cases(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"field 'io.t\[0\]': must be a string, not an array") as caught:
        only(tmp_path, {"q": "?", "io": {"t": [[[1], 2]]}}, "prompt=q", "tests=io.t")
    assert caught.value.hint is not None
    assert "cases=test_cases,fn=function_name" in caught.value.hint
    with pytest.raises(InputError, match=r"field 'io.t\[0\]': compares values but asserts nothing"):
        only(tmp_path, {"q": "?", "io": {"t": ["f(1) == 2"]}}, "prompt=q", "tests=io.t")


def test_two_rows_of_one_name_are_refused_by_the_field_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"uid": "a", "q": "?", "t": "assert f()"}\n' * 2)
    with pytest.raises(InputError, match=r"mine\.jsonl:2: field 'uid': 'a' is already used in line 1"):
        load_problems(path, fields=["task_id=uid", "prompt=q", "tests=t"])


def test_a_mapped_row_is_no_other_format_and_its_other_tests_are_left_out_on_purpose(tmp_path: Path) -> None:
    row = {"prompt": "?", "test": "def check(f): pass", "entry_point": "f", "asserts": ["assert f(1) == 2"]}
    assert only(tmp_path, row, "tests=asserts").tests == ("assert f(1) == 2",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("prompt=question", "tests=asserts"), "field 'question': is missing; there are `q`, `info`, `io`"),
        (("prompt=q", "tests=info.x"), "field 'info.x': is missing; there are `a`"),
        (("prompt=q", "tests=info.a.3"), "field 'info.a.3': is missing"),
        (("prompt=q", "tests=q.a"), "field 'q': must be JSON text: "),
        (("prompt=q", "cases=info"), "field 'info.inputs': is missing"),
        (("prompt=q",), "the nearest is sandrl's own, which also needs `tests` or `cases` or `check`"),
        (("prompt=q", "cases=io"), "field 'io[0]': must be an object with an input and an output, not a string"),
    ],
)
def test_what_is_not_there_is_named_with_its_line(tmp_path: Path, fields: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        only(tmp_path, {"q": "?", "info": {"a": ["x"]}, "io": ["x"]}, *fields)
    assert caught.value.message.startswith(f"{tmp_path / 'mine.jsonl'}:1: ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("prompt", "fields: 'prompt' is not FIELD=PATH"),
        ("prompt=", "fields: 'prompt=' is not FIELD=PATH"),
        ("prompt=a..b", "is not FIELD=PATH"),
        ("prompt:=", "fields: 'prompt:=' is not FIELD=PATH or FIELD:=VALUE"),
        ("tests:=b", "fields: 'tests' is given twice"),
        ("promt=a", "fields: a problem has no field 'promt'"),
    ],
)
def test_a_pair_that_says_nothing_is_refused(tmp_path: Path, field: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        only(tmp_path, {}, "tests=a", field)
    assert caught.value.fields == ("fields",)
