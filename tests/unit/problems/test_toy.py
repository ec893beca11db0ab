"""The toy set of the documentation, each program with its output."""

from __future__ import annotations

import contextlib
import io

import pytest

from sandrl.problems import Problem, load_problems, render_prompt

TOY = load_problems("toy").problems


def test_the_toy_set_is_the_documented_one() -> None:
    outputs = {task_id: problem.cases[0].stdout for task_id, problem in TOY.items()}
    assert outputs == {"add": "5\n", "hello": "Hello, World!\n", "sum": "55\n", "length": "6\n", "max": "9\n"}
    prompts = " ".join(problem.prompt for problem in TOY.values())
    for word in ("2 and 3", "'Hello, World!'", "1 to 10", "'aviato'", "[3, 1, 4, 1, 5, 9]"):
        assert word in prompts


@pytest.mark.parametrize("problem", TOY.values(), ids=list(TOY))
def test_the_reference_prints_what_is_expected_and_the_prompt_does_not_give_it_away(problem: Problem) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        exec(problem.reference or "")
    assert stdout.getvalue() == problem.cases[0].stdout
    assert (render_prompt(problem).shown, render_prompt(problem).text) == (0, problem.prompt)
