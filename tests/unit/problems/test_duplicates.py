"""Which problems are the same problem twice, and which only look alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.problems import Call, Problem
from sandrl.problems.problem import Case
from sandrl.problems.splits import normal_checks, normal_prompt, without_duplicates
from sandrl.problems.tasks.task import Environment, Task, TaskStep


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Return the sum of a list.", "return  the sum\nof a list"),
        ("Write a function `add(a, b)` that adds.", "Write a function add(a, b) that adds"),
        ("Sort the list, in place; return it.", "Sort the list in place return it."),
        ("# Task\nAdd **two** numbers.", "Task\nAdd two numbers"),
        ("Given:\n- a list\n- a number", "Given:\n* a list\n* a number"),
        ("Print it:\n```python\nf(1)\n```", "Print it:\n\nf(1)\n"),
        ("Return ‘yes’ if so.", 'Return "yes" if so.'),
        ("Ｗrite ﬁbonacci.", "Write fibonacci."),
        ("What is the largest?", "What is the largest"),
        ("Return x\u00a0+ y.", "Return x + y."),
    ],
)
def test_prompts_that_ask_for_the_same_are_equal(one: str, other: str) -> None:
    assert normal_prompt(one) == normal_prompt(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Return the 2nd largest number.", "Return the 3rd largest number."),
        ("Add 3 to x.", "Add -3 to x."),
        ("Add 1.5 to x.", "Add 15 to x."),
        ("Return 2² of it.", "Return 22 of it."),
        ("Return x₁.", "Return x1."),
        ("Return a + b.", "Return a - b."),
        ("Return a * b.", "Return a ** b."),
        ("Compute n!", "Compute n"),
        ("Is x < y?", "Is x > y?"),
        ("Is it sorted?", "Is it not sorted?"),
        ("Return the minimum.", "Return the maximum."),
        ("Count 'a' in a text.", "Count 'A' in a text."),
        ("Split on ' '.", "Split on '  '."),
        ("Replace '.' with ','.", "Replace ',' with '.'."),
        ("Replace . with , in it.", "Replace , with . in it."),
        ("Define __len__.", "Define len."),
        ("Return ½ of it.", "Return 12 of it."),
        ("Return [a, b].", "Return (a, b)."),
    ],
)
def test_prompts_that_ask_for_something_else_differ(one: str, other: str) -> None:
    assert normal_prompt(one) != normal_prompt(other)


def problem(*tests: str, prompt: str = "Task.") -> Problem:
    return Problem("p", prompt, tests=tests)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["assert f(1) == 2", "assert f(2) == 3"], ["assert f(2) == 3", "assert f(1) == 2"]),
        (["assert f(1)==2"], ["assert f( 1 ) == 2  # two"]),
        (["assert f('a') == (1)"], ['assert f("a") == 1, "it is one"']),
        (["assert f(1) ==", "assert f(2)"], ["assert f(2)", "assert f(1) == "]),
    ],
)
def test_checks_that_check_the_same_are_equal(one: list[str], other: list[str]) -> None:
    assert normal_checks(problem(*one)) == normal_checks(problem(*other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["assert f(1) == 2"], ["assert f(1) == 3"]),
        (["assert f(1) == 2"], ["assert f(1) == 2.0"]),
        (["assert f(1) == 2"], ["assert g(1) == 2"]),
        (["assert f('a b') == 2"], ["assert f('a  b') == 2"]),
        (["assert f(1) == 2"], ["assert f(1) == 2", "assert f(2) == 3"]),
        (["assert f(1, 2)"], ["assert f(2, 1)"]),
        (["if f(1):\n    x = 1\nassert x"], ["if f(1):\n    x = 1\n    assert x"]),
    ],
)
def test_checks_that_check_something_else_differ(one: list[str], other: list[str]) -> None:
    assert normal_checks(problem(*one)) != normal_checks(problem(*other))


def test_cases_are_compared_without_their_order_and_the_white_space_at_their_ends() -> None:
    one = Problem("p", "Sum.", cases=(Case("1 2\n", "3\n"), Case("2 2", "4")))
    assert normal_checks(one) == normal_checks(Problem("p", "Add.", cases=(Case("2 2\n", "4\n"), Case("1 2", "3"))))
    assert normal_checks(one) != normal_checks(Problem("p", "Add.", cases=(Case("2 2", "5"), Case("1 2", "3"))))
    assert normal_checks(one) != normal_checks(Problem("p", "Sum.", cases=(Case("12", "3"), Case("2 2", "4"))))


def test_a_problem_is_a_duplicate_by_its_prompt_or_by_its_checks_but_not_by_exit_status_alone() -> None:
    train = {"a": problem("assert f(1) == 2", prompt="Add 1."), "e": Problem("e", "Run A.", check="exit_status")}
    held_out = {
        "prompt": problem("assert g(1) == 2", prompt="add  1"),
        "checks": problem("assert f(1)==2", prompt="Increase a number."),
        "other": problem("assert f(1) == 3", prompt="Add 2."),
        "runs": Problem("runs", "Run B.", check="exit_status"),
    }
    assert list(without_duplicates(held_out, train)) == ["other", "runs"]


def test_calls_are_compared_without_their_order() -> None:
    one = Problem("one", "", fn="f", calls=(Call.of([1], 2), Call.of([2], 3)))
    other = Problem("other", "", fn="f", calls=(Call.of([2], 3), Call.of([1], 2)))
    assert normal_checks(one) == normal_checks(other)
    assert normal_checks(one) != normal_checks(replace(one, fn="g", entry_point="g"))


def test_tasks_with_one_instruction_are_different_on_different_machines() -> None:
    def task(name: str, image: str, digest: str) -> Problem:
        machine = Task(name, "harbor 1.3", digest, Environment(image), (TaskStep("Repair it."),))
        return Problem(name, "Repair it.", task=machine)

    train = {"first": task("first", "a", "1" * 64)}
    held_out = [task("same", "b", "1" * 64), task("alike", "a", "2" * 64), task("other", "b", "3" * 64)]
    assert list(without_duplicates({each.task_id: each for each in held_out}, train)) == ["other"]
