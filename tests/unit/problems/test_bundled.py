"""The sets that come with sandrl: the checks tell a right answer from an easy wrong one.

The code is ours, so it runs right here; that real sandboxes agree is shown in `tests/integration`.
"""

from __future__ import annotations

import ast
import contextlib
import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.problems import Problem, demo_completions, demo_problems, load_problems, render_prompt
from sandrl.problems.tiny import FUNCTION_NAMES, KINDS, NUMBERS, Task, tasks

BUNDLED, TOY = load_problems("bundled").problems, load_problems("toy").problems
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


def test_the_demo_problems_are_in_it_too_and_their_completions_sleep_as_announced() -> None:
    assert demo_problems().items() <= BUNDLED.items()
    assert all(problem.reference for problem in demo_problems().values())
    names = ["slow-sum", "string-ops", "delayed-error", "syntax-error", "slow-list"]
    completions = {each.id: each.completion or "" for each in demo_completions()}
    assert list(demo_problems()) == list(completions) == names
    assert [text.partition("sleep(")[2][:1] for text in completions.values()] == ["2", "", "1", "", "3"]


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


def test_the_toy_set_is_the_documented_one() -> None:
    outputs = {task_id: problem.cases[0].stdout for task_id, problem in TOY.items()}
    assert outputs == {"add": "5\n", "hello": "Hello, World!\n", "sum": "55\n", "length": "6\n", "max": "9\n"}
    prompts = " ".join(problem.prompt for problem in TOY.values())
    assert all(word in prompts for word in ("2 and 3", "'Hello, World!'", "1 to 10", "'aviato'", "[3, 1, 4, 1, 5, 9]"))


@pytest.mark.parametrize("problem", named(list(TOY.values())))
def test_the_reference_of_a_toy_prints_what_is_expected_and_its_prompt_does_not(problem: Problem) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        exec(problem.reference or "")
    assert stdout.getvalue() == problem.cases[0].stdout
    assert (render_prompt(problem).shown, render_prompt(problem).text) == (0, problem.prompt)


def of_kind(split: str) -> Counter[str]:
    return Counter(task.kind.name for task in tasks(split))


def test_there_are_23_kinds_6_names_and_8_numbers() -> None:
    with_number = sum("{k}" in kind.asked for kind in KINDS)
    assert (len({kind.name for kind in KINDS}), len(set(FUNCTION_NAMES)), len(NUMBERS)) == (23, 6, 8)
    assert len(tasks()) == (with_number * 8 + (23 - with_number)) * 6


def test_the_splits_share_no_task_but_every_kind_name_and_number() -> None:
    train, test = set(tasks("train")), set(tasks("test"))
    assert train | test == set(tasks())
    assert not train & test
    for part in (train, test):
        assert {task.kind for task in part} == set(KINDS)
        assert {task.function_name for task in part} == set(FUNCTION_NAMES)
        assert {task.number for task in part} == {0, *NUMBERS}
    assert all(count < of_kind("train")[name] for name, count in of_kind("test").items())


def test_every_problem_has_2_to_5_checks() -> None:
    assert {problem.check_count for problem in load_problems("tiny").problems.values()} <= {2, 3, 4, 5}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_right_code_passes_and_that_of_any_other_task_fails(kind: Any) -> None:
    name = FUNCTION_NAMES[0]
    # `text * 2` and `n * 2` are the same function.
    rivals = [each for each in KINDS if each.argument == kind.argument]
    codes = [Task(each, name, number).right for each in rivals for number in each.numbers]
    for number in kind.numbers:
        task = Task(kind, name, number)
        problem = task.to_problem()
        assert [code for code in codes if passes(problem, code)] == [task.right]
        assert not passes(problem, task.wrong)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_neither_a_constant_nor_the_argument_itself_passes(kind: Any) -> None:
    for number in kind.numbers:
        problem = Task(kind, "solve", number).to_problem()
        expected = [test.partition(" == ")[2] for test in problem.tests]
        for answer in (*expected, kind.argument):
            assert not passes(problem, f"def solve({kind.argument}):\n    return {answer}\n")


def test_the_set_is_mixed_and_its_order_never_changes() -> None:
    first = list(load_problems("tiny:train").problems)[:40]
    assert first == [task.task_id for task in tasks("train")][:40]
    assert len({task_id.partition("-")[0] for task_id in first}) > 10
    assert first[:3] == ["below-6-make", "power-3-compute", "times-7-compute"]


def test_an_unknown_split_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match="tiny has no split 'dev'") as caught:
        load_problems("tiny:dev")
    assert caught.value.hint == "use one of its splits: train, test"
