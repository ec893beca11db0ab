"""The generated set: its own code, so it runs right here; that real sandboxes agree is shown by validating it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.problems import Problem, load_problems
from sandrl.problems.tiny import FUNCTION_NAMES, KINDS, NUMBERS, Task, tasks


def passes(problem: Problem, code: str) -> bool:
    namespace: dict[str, Any] = {}
    try:
        exec(code, namespace)
        for test in problem.tests:
            exec(test, namespace)
    except Exception:  # noqa: BLE001 - wrong answers fail in every way there is
        return False
    return True


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
