"""The bundled set is held against its own promise: its checks tell a right answer from an easy wrong one.

The code is ours, so it runs right here; that real sandboxes agree is shown in `tests/integration`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from sandrl.problems import Problem, demo_problems, load_problems, render_prompt

BUNDLED = load_problems("bundled").problems
OWN = [problem for task_id, problem in BUNDLED.items() if task_id not in demo_problems()]
FUNCTIONS = [problem for problem in OWN if problem.kind == "tests"]
PROGRAMS = [problem for problem in OWN if problem.kind == "cases"]

EASY_ANSWERS = ("None", "0", "1", "-1", "True", "False", "''", "[]", "{}", "()", "set()", "0.0", "float('nan')")


def named(problems: list[Problem]) -> list[Any]:
    return [pytest.param(problem, id=problem.task_id) for problem in problems]


def passes(problem: Problem, code: str) -> bool:
    namespace: dict[str, Any] = {}
    try:
        exec(problem.setup, namespace)
        exec(code, namespace)
        for test in problem.tests:
            exec(test, namespace)
    except Exception:  # noqa: BLE001 - wrong answers fail in every way there is
        return False
    return True


def values_compared_with(problem: Problem) -> set[str]:
    comparisons = [
        node for test in problem.tests for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Compare)
    ]
    return {ast.unparse(value) for node in comparisons for value in node.comparators}


def test_the_set_is_large_enough_and_of_both_kinds() -> None:
    assert len(OWN) >= 40
    assert len(PROGRAMS) >= 8
    assert len(FUNCTIONS) + len(PROGRAMS) == len(OWN)


def test_the_documentation_counts_right() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "problems.md").read_text(encoding="utf-8")
    assert f"{len(OWN)} original problems, {len(PROGRAMS)} of them programs" in page


def test_the_demo_problems_are_in_it_too() -> None:
    assert demo_problems().items() <= BUNDLED.items()


@pytest.mark.parametrize("problem", named(OWN))
def test_every_problem_is_complete(problem: Problem) -> None:
    assert 3 <= problem.check_count <= 6
    assert problem.reference
    if problem.kind == "tests":
        assert f"`{problem.entry_point}(" in problem.prompt
        assert all(str(problem.entry_point) in test for test in problem.tests)
    assert (render_prompt(problem).shown, render_prompt(problem, show_tests=99).hidden) == (1, 0)


@pytest.mark.parametrize("problem", named(FUNCTIONS))
def test_no_constant_passes_not_even_one_taken_from_the_tests(problem: Problem) -> None:
    # A value that calls the function itself is not a constant, and some versions of Python crash on endless recursion.
    values = {value for value in values_compared_with(problem) if f"{problem.entry_point}(" not in value}
    answers = {*EASY_ANSWERS, *values}
    constants = [f"def {problem.entry_point}(*given):\n    return {answer}\n" for answer in answers]
    assert [code for code in constants if passes(problem, code)] == []


@pytest.mark.parametrize("problem", named(FUNCTIONS))
def test_handing_back_the_argument_does_not_pass(problem: Problem) -> None:
    assert not passes(problem, f"def {problem.entry_point}(first, *others):\n    return first\n")


@pytest.mark.parametrize("problem", named(PROGRAMS))
def test_printing_what_one_case_expects_does_not_pass(problem: Problem) -> None:
    assert len({case.stdout for case in problem.cases}) == len(problem.cases)
