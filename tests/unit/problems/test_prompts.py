from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.problems import ANSWER_INSTRUCTION, Case, Problem, Prompt, chat_prompt, render_prompt

DOUBLE = Problem("double", "Double it.", tests=("assert double(2) == 4", "assert double(0) == 0"), entry_point="double")
SUITE = "def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2) == 3\n\ncheck(total)\n"


def test_one_test_is_shown_and_the_rest_stays_hidden() -> None:
    assert render_prompt(DOUBLE) == Prompt(
        "Double it.\n\nYour code should pass this test:\n\n```python\nassert double(2) == 4\n```", shown=1, hidden=1
    )


def test_all_tests_can_be_shown() -> None:
    prompt = render_prompt(DOUBLE, show_tests=5)
    assert "pass these tests:\n\n```python\nassert double(2) == 4\nassert double(0) == 0\n```" in prompt.text
    assert (prompt.shown, prompt.hidden) == (2, 0)


@pytest.mark.parametrize("show_tests", [0, -1])
def test_with_no_test_shown_the_name_that_is_asked_for_is_told_once(show_tests: int) -> None:
    assert render_prompt(DOUBLE, show_tests=show_tests) == Prompt("Double it.\n\nName it `double`.", shown=0, hidden=2)
    named = replace(DOUBLE, prompt="Write `double(n)`.")
    assert render_prompt(named, show_tests=show_tests).text == "Write `double(n)`."


def test_a_test_that_holds_a_whole_suite_is_not_given_away_as_one() -> None:
    problem = Problem("total", "def total(n):\n    ...\n", tests=(SUITE,), entry_point="total")
    assert render_prompt(problem) == Prompt("def total(n):\n    ...", shown=0, hidden=1)
    assert render_prompt(problem, show_tests=2).shown == 1


def test_no_later_test_takes_the_place_of_one_that_is_too_large() -> None:
    problem = Problem("total", "Add up to `total`.", tests=(SUITE, "assert total(0) == 0"))
    assert render_prompt(problem).shown == 0


def test_a_test_without_an_assert_counts_as_one() -> None:
    problem = Problem("run", "Run.", tests=("if run() != 1: raise ValueError", "this is no Python", "assert run()"))
    assert render_prompt(problem, show_tests=2).shown == 2


def test_cases_are_shown_as_examples() -> None:
    problem = Problem("echo", "Echo.\n", cases=(Case("a\nb\n", "a\nb\n"), Case("c", "c")))
    assert render_prompt(problem) == Prompt(
        "Echo.\n\nExample input:\n\n```\na\nb\n```\n\nIts output:\n\n```\na\nb\n```", shown=1, hidden=1
    )


def test_a_case_that_holds_a_fence_gets_a_longer_one() -> None:
    problem = Problem("echo", "Echo.", cases=(Case("```\nx\n```\n", "y"),))
    assert "````\n```\nx\n```\n````" in render_prompt(problem).text


def test_a_problem_that_only_has_to_run_has_nothing_to_show() -> None:
    assert render_prompt(Problem("run", "Run.", check="exit_status")) == Prompt("Run.", shown=0, hidden=1)


def test_the_output_of_a_program_without_input_is_not_shown_because_it_is_the_answer() -> None:
    assert render_prompt(Problem("p", "Print 5.", cases=(Case("", "5\n"),))) == Prompt("Print 5.", shown=0, hidden=1)
    total = Problem("p", "Add up what you read.", cases=(Case("", "0\n"), Case("1\n", "1\n")))
    assert (render_prompt(total).shown, render_prompt(total).hidden) == (1, 1)


def test_a_conversation_tells_the_form_of_the_answer_and_then_the_problem() -> None:
    problem = Problem("p", "Print 5.", cases=(Case("", "5\n"),))
    assert chat_prompt(problem) == [
        {"role": "system", "content": ANSWER_INSTRUCTION},
        {"role": "user", "content": "Print 5."},
    ]
    assert chat_prompt(problem, instruction="Call the tool.")[0]["content"] == "Call the tool."
    assert "<answer>" in ANSWER_INSTRUCTION
