"""Rows of EvalPlus: their inputs as calls, what JSON has lost of them, and how results are compared."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.support.evalplus_rows import TASKS

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.judge.calibration import Calibration, CalibrationStore
from sandrl.judge.guest_request import call_seconds, call_tolerances
from sandrl.judge.stubs import stubs_of
from sandrl.judge.verdict import ReferenceValues
from sandrl.problems import Call, Comparison, Problem, Tolerance, load_problems, own_row, render_prompt, write_problems
from sandrl.problems.formats import parse_problem

ROW: dict[str, Any] = {
    "task_id": "HumanEval/1000", "prompt": "def f(x):\n    \"\"\"Double it.\"\"\"\n", "contract": "    assert x",
    "canonical_solution": "    return 2 * x\n", "entry_point": "f", "base_input": [[1]], "plus_input": [[2], [3]],
    "atol": 0,
}  # fmt: skip


DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]


def problem_of(**fields: Any) -> Problem:
    row = {name: value for name, value in (ROW | fields).items() if value is not ...}
    return parse_problem(Row(7, row), "p.jsonl").problem


def refusal(**fields: Any) -> str:
    with pytest.raises(InputError) as caught:
        problem_of(**fields)
    return caught.value.message


def test_a_row_is_calls_that_must_return_what_the_reference_returns() -> None:
    problem = problem_of(atol=1e-3, assertion="assert f(1) == 2")
    assert (problem.kind, problem.fn, problem.check_count, problem.asks_reference) == ("calls", "f", 3, True)
    assert problem.reference == ROW["prompt"] + ROW["canonical_solution"]
    assert problem.check_names == ("base_input[0]", "plus_input[0]", "plus_input[1]")
    assert problem.tolerance == Tolerance(absolute=1e-3)
    assert problem.timeout_seconds == 60.0
    prompt = render_prompt(problem, show_tests=2)
    assert (prompt.shown, prompt.hidden) == (0, 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base_input": ...}, "field 'base_input': is missing"),
        ({"plus_input": ...}, "field 'plus_input': is missing"),
        ({"canonical_solution": ...}, "field 'canonical_solution': is missing"),
        ({"entry_point": "f(x)"}, "field 'entry_point': must be the name of a function, not 'f(x)'"),
        ({"base_input": [], "plus_input": []}, "field 'base_input': has no inputs, and neither has plus_input"),
        ({"plus_input": [[1], 2]}, "field 'plus_input[1]': must be an array of arguments, not an integer"),
        ({"plus_input": {"a": 1}}, "field 'plus_input': must be an array"),
        ({"atol": -1}, "field 'atol': must be a finite number, 0 or more"),
        ({"test": "assert f(1) == 2"}, "field 'test': looks like tests"),
        ({"language": "cpp"}, "field 'language': is cpp"),
        ({"task_id": "Mbpp/252", "base_input": [["x"]]}, "field 'base_input[0]': does not match the arguments of Mbpp"),
        (
            {"task_id": "Mbpp/115", "base_input": [[[[[1]]]]]},
            "field 'base_input[0]': does not match the arguments of Mbpp",
        ),
        ({"task_id": "Mbpp/580", "base_input": [DEEP]}, "field 'base_input[0]': is nested too deep"),
        ({"task_id": "HumanEval/1", "base_input": [DEEP]}, "field 'base_input[0]': is nested too deep"),
    ],
)
def test_a_row_that_is_no_problem_says_why(fields: dict[str, Any], message: str) -> None:
    assert message in refusal(**fields)


@pytest.mark.parametrize(
    ("task_id", "given", "expected"),
    [
        ("Mbpp/2", [[1], [2, [3]]], [(1,), (2, [3])]),
        ("Mbpp/63", [[[1, 2]]], [[(1, 2)]]),
        ("Mbpp/106", [[1], [2]], [[1], (2,)]),
        ("Mbpp/115", [[[1, 1], []]], [[{1}, {}]]),
        ("Mbpp/124", ["1", "2j"], [1.0, 2j]),
        ("Mbpp/250", [[1], [1]], [(1,), [1]]),
        ("Mbpp/278", [[1, [2]]], [(1, (2,))]),
        ("Mbpp/722", [{"a": [1]}, 2], [{"a": (1,)}, 2]),
        ("Mbpp/580", [[[1, [2]]]], [((1, (2,)),)]),
        ("Mbpp/3", [[1]], [[1]]),
        ("HumanEval/2", [[1], [2]], [[1], [2]]),
        ("mine/2", [[1]], [[1]]),
    ],
)
def test_inputs_are_what_the_task_takes(task_id: str, given: list[Any], expected: list[Any]) -> None:
    problem = problem_of(task_id=task_id, base_input=[given], plus_input=[])
    assert problem.calls[0].values == (expected, None)


@pytest.mark.parametrize(
    ("task_id", "entry_point", "comparison"),
    [
        ("Mbpp/2", "similar_elements", Comparison.EVALPLUS_SET),
        ("Mbpp/724", "text_match_three", Comparison.EVALPLUS_NOT_NONE),
        ("Mbpp/164", "are_equivalent", Comparison.EVALPLUS_ANYTHING),
        ("HumanEval/32", "find_zero", Comparison.EVALPLUS_ROOT),
        ("HumanEval/2", "similar_elements", Comparison.EVALPLUS),
        ("mine/1", "find_zero", Comparison.EVALPLUS),
    ],
)
def test_the_set_and_the_entry_point_say_how_results_are_compared(
    task_id: str, entry_point: str, comparison: Comparison
) -> None:
    problem = problem_of(task_id=task_id, entry_point=entry_point, base_input=[[[1], [1]]], plus_input=[])
    assert problem.comparison is comparison


def test_rows_in_our_own_format_lose_nothing(tmp_path: Path) -> None:
    problems = [parse_problem(Row(1, task.row), "p.jsonl").problem for task in TASKS]
    write_problems(problems, tmp_path / "own.jsonl")
    assert list(load_problems(str(tmp_path / "own.jsonl")).problems.values()) == problems


def test_calls_with_values_that_json_has_not_are_texts_in_our_own_format() -> None:
    calls = (
        Call.of([(1, 2), {3}, {4: 5}], 1 + 2j),
        Call.of([[1, None, True, "it's"]], {"a": [1.5]}),
        Call.of([math.inf], b"x"),
        Call.asking([math.nan, (-math.inf,), "nan"]),
    )
    row = own_row(Problem("p", "", fn="f", calls=calls[:3]))
    assert row["cases"][1] == [[[1, None, True, "it's"]], {"a": [1.5]}]
    assert row["cases"][0] == {"arguments": "[(1, 2), {3}, {4: 5}]", "expected": "(1+2j)"}
    assert parse_problem(Row(1, json.loads(json.dumps(row))), "p.jsonl").problem.calls == calls[:3]
    [[number, infinite, text], expected] = calls[3].values
    assert (math.isnan(number), infinite, text, expected) == (True, (-math.inf,), "nan", None)


def test_a_problem_has_one_source_of_expected_values_and_a_known_comparison() -> None:
    mixed = (Call.of([1], 1), Call.asking([2]))
    with pytest.raises(InputError, match="some calls have an expected value and some do not"):
        Problem("t", "", fn="f", calls=mixed, reference="def f(x): return x")
    with pytest.raises(InputError, match="must be one of plain, evalplus, "):
        Problem("t", "", fn="f", calls=mixed[:1], comparison="near")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has an effect on calls only"):
        Problem("t", "", tests=("assert f(1) == 1",), comparison=Comparison.EVALPLUS)


def test_every_stub_is_tried_where_only_a_sandbox_knows_what_is_right() -> None:
    assert [stub.label for stub in stubs_of(problem_of())] == ["None", "0", '""', "[]", "True", "its first argument"]


def returned(floats: str) -> ReferenceValues:
    return ReferenceValues("", (0,) * len(floats), (0.1,) * len(floats), floats)


def test_numbers_may_differ_from_the_first_float_of_a_part_on() -> None:
    problem = problem_of(base_input=[[1], [2], [3]], plus_input=[[1], [2], [3]])
    assert call_tolerances(problem, returned("-f--f-")) == [0, 1e-6, 1e-6, 0, 1e-6, 1e-6]
    assert call_tolerances(problem_of(atol=1e-3), returned("-f-")) == [1e-3] * 3
    known = Problem("t", "", fn="f", calls=(Call.of([], 1), Call.of([], [0.5])), comparison=Comparison.EVALPLUS)
    assert call_tolerances(known, None) == [0, 1e-6]


def test_a_call_may_take_four_times_as_long_as_the_reference_but_never_less_than_the_least() -> None:
    found = ReferenceValues("", (1, 1), (0.5, 3.0), "--")
    assert call_seconds(found, None) == [4.0, 12.0]
    assert call_seconds(found, 1.0) == [2.0, 12.0]


def test_what_a_reference_returned_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    store, problem, key = CalibrationStore(tmp_path / "cache"), problem_of(), "ab" * 32
    assert store.find(key, problem) is None
    found = Calibration(returned=returned("-f-"))
    store.keep(key, found)
    assert store.find(key, problem) == found
    assert store.find(key, problem_of(plus_input=[])) is None, "values of other calls"
    [path] = (tmp_path / "cache").glob("calibrations/*/*.json")
    assert path.stat().st_mode & 0o077 == 0
    path.write_text(path.read_text().replace("0.1", "0.2"))
    assert store.find(key, problem) is None
    store.keep(key, found)
    assert store.find(key, problem) is not None
    (tmp_path / "cache").chmod(0o777)
    assert store.find(key, problem) is None, "others could have written it"
    CalibrationStore(Path("/proc/nothing")).keep(key, found)
