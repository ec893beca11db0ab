"""Calls of a function as checks: judged apart from the completion, by the rules in docs/reference/problems.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.judge.limits import Limits
from sandrl.judge.stubs import stubs_of
from sandrl.problems import Problem, Tolerance, load_problems, render_prompt
from sandrl.sandboxes import Job
from tests.support.judges import scored

TWO_SUM = Problem(
    "two-sum",
    "Return the indices of two numbers that add up to the target.",
    fn="two_sum",
    calls=[([[2, 7, 11, 15], 9], [0, 1]), ([[3, 2, 4], 6], [1, 2])],  # type: ignore[arg-type]
)
BODY = "for i, a in enumerate(xs):\n{0}    for j in range(i):\n{0}        if xs[j] + a == t:\n{0}            return {1}"
FUNCTION = "def two_sum(xs, t):\n    " + BODY
METHOD = "class Solution:\n    def two_sum(self, xs, t):\n        " + BODY


def test_an_answer_may_be_a_function_or_a_method_of_solution(job: Job) -> None:
    right = [FUNCTION.format(" " * 4, "[j, i]"), METHOD.format(" " * 8, "[j, i]"), FUNCTION.format(" " * 4, "(j, i)")]
    wrong = [FUNCTION.format(" " * 4, "[i, j]"), "def two_sum(xs, t): return None", "def other(xs, t): return [0, 1]"]
    results = scored(job, TWO_SUM, *right, *wrong)
    assert [result.reward for result in results] == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert {result.trust for result in results} == {Trust.ISOLATED}
    assert results[3].detail == "check 1 of 2: AssertionError: the returned value differs from the expected value"
    assert "NameError" in results[5].detail


def test_a_method_that_is_asked_for_may_not_be_a_function_and_each_call_has_an_object_of_its_own(job: Job) -> None:
    problem = Problem("count", "", fn="Counter().count", calls=[([], 1), ([], 1)])  # type: ignore[arg-type]
    counter = "class Counter:\n    n = 0\n    def count(self):\n        self.n += 1\n        return self.n"
    results = scored(job, problem, counter, "n = 0\ndef count():\n    return 1")
    assert [result.reward for result in results] == [1.0, 0.0]


def test_each_call_is_a_check_and_those_after_one_that_takes_too_long_are_judged(job: Job) -> None:
    problem = Problem("slow", "", fn="f", calls=[([1], 1), ([2], 2), ([3], 3), ([4], 5)])  # type: ignore[arg-type]
    code = "import time\ndef f(n):\n    if n == 2: time.sleep(60)\n    return n"
    [result] = scored(job, problem, code, limits=Limits(check_timeout_seconds=0.5))
    expected = [CheckStatus.PASSED, CheckStatus.TIMEOUT, CheckStatus.PASSED, CheckStatus.FAILED]
    assert [check.status for check in result.checks] == expected
    assert (result.status, result.passed, result.total) == (Status.TIMEOUT, 2, 4)


def test_values_are_compared_as_plain_values_only(job: Job) -> None:
    problem = Problem("p", "", fn="f", calls=[([1], [1, {"a": 2}])])  # type: ignore[arg-type]
    liar = "class Liar:\n    def __eq__(self, other): return True\n    def __hash__(self): return 1\n"
    attacks = [
        liar + "def f(n): return Liar()",
        liar + "def f(n): return [1, Liar()]",
        liar + "def f(n): return [1, {'a': Liar()}]",
        liar + "class Solution(Liar):\n    def f(self, n): return self",
        "class L(list):\n    def __eq__(self, other): return True\ndef f(n): return L()",
        "class D(dict):\n    def __eq__(self, other): return True\ndef f(n): return [1, D()]",
        "import builtins\nbuiltins.all = lambda x: True\nbuiltins.len = lambda x: 2\ndef f(n): return [5, 5]",
        "def __call__(*a): pass\ndef f(n): return 0",
        "def f(n): raise SystemExit(0)",
    ]
    honest = ["def f(n): return [n, {'a': 2}]", "def f(n): return (n, {'a': 2})"]
    results = scored(job, problem, *attacks, *honest)
    assert [result.reward for result in results] == [0.0] * len(attacks) + [1.0] * len(honest)


def test_numbers_are_compared_exactly_or_within_the_tolerance(job: Job) -> None:
    calls: Any = [([1.0], [0.3, 2]), ([0.0], [0.0, 1])]
    code = "def f(x): return [x / 10 + 0.2 if x else 1e-9, 1 + int(x)]"
    exact = Problem("exact", "", fn="f", calls=calls)
    near = Problem("near", "", fn="f", calls=calls, tolerance=Tolerance(absolute=1e-6, relative=1e-6))
    infinite = Problem("inf", "", fn="f", calls=[([1], float("inf"))], tolerance=Tolerance(absolute=1.0))  # type: ignore[arg-type]
    assert [result.reward for result in scored(job, exact, code)] == [0.0]
    assert [result.reward for result in scored(job, near, code)] == [1.0]
    results = scored(
        job, infinite, "def f(x): return float('inf')", "def f(x): return 1e300", "def f(x): return float('nan')"
    )
    assert [result.reward for result in results] == [1.0, 0.0, 0.0]


def test_arguments_that_a_call_changes_are_new_in_the_next(job: Job) -> None:
    problem = Problem("pop", "", fn="f", calls=[([[1, 2]], 2), ([[1, 2]], 2)])  # type: ignore[arg-type]
    assert [result.reward for result in scored(job, problem, "def f(xs): return xs.pop()")] == [1.0]


def test_two_thousand_calls_are_judged_in_one_sandbox(job: Job) -> None:
    problem = Problem("many", "", fn="f", calls=[([n], n * n) for n in range(2000)])  # type: ignore[arg-type]
    results = scored(job, problem, "def f(n): return n * n", "def f(n): return n * n if n != 1999 else 0")
    assert [(result.passed, result.sandboxes) for result in results] == [(2000, 1), (1999, 1)]


def test_a_row_has_calls_and_its_prompt_shows_some(tmp_path: Path) -> None:
    row = {"task_id": "add", "prompt": "Add.", "fn": "add", "cases": [[[1, 2], 3], [["a", "b"], "ab"]]}
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    problem = load_problems(path).problems["add"]
    assert (problem.kind, problem.check_count, problem.entry_point) == ("calls", 2, "add")
    prompt = render_prompt(problem, show_tests=1)
    assert "assert add(1, 2) == 3" in prompt.text
    assert (prompt.shown, prompt.hidden) == (1, 1)
    assert stubs_of(problem) == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"fn": "add", "cases": []}, "field 'calls': is missing, and fn is given"),
        ({"fn": "add(", "cases": [[[1], 2]]}, "field 'fn': must be the name of a function"),
        (
            {"cases": [[[1], 2]]},
            "field 'cases[0]': is a call, but the field `fn`, the name of the function, is missing",
        ),
        (
            {"fn": "add", "cases": [{"stdin": "1", "stdout": "2"}]},
            "field 'cases[0]': must be a list of arguments and the value to return",
        ),
        ({"fn": "add", "cases": [[1, 2]]}, "field 'cases"),
        ({"fn": "add", "cases": [[[1]]]}, "field 'cases"),
        ({"fn": "add", "cases": [[[2], float("nan")]]}, "NaN"),
    ],
)
def test_what_is_no_call_is_refused_with_its_field(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"task_id": "p", "prompt": "", **fields}) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_problems(path)
    assert reason in str(caught.value)
    assert f"{path}:1" in str(caught.value)
