"""Mathematical problems: their rows, and what of a text is its answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.math_pairs import PAIRS
from tests.support.math_rows import MATH_ROWS

from sandrl.answers.extraction import Extraction, extract_code
from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems import Completion, Problem
from sandrl.problems.formats import own_row, parse_problem
from sandrl.problems.math_answers import MATH_INSTRUCTION, stated
from sandrl.problems.prompts import chat_prompt

HALF = Problem("half", "What is 1 - 1/2?", answer="\\frac{1}{2}")


def parsed(row: dict[str, Any]) -> Problem:
    return parse_problem(Row(1, row), "rows.jsonl", "rows").problem


def verl(truth: Any, **fields: Any) -> dict[str, Any]:
    reward = {"ground_truth": truth, "style": fields.pop("style", "rule")}
    return {"prompt": [{"role": "user", "content": "What?"}], "reward_model": reward, **fields}


@pytest.mark.parametrize("name", MATH_ROWS)
def test_a_row_of_a_mathematical_set_has_the_answer_of_its_format(name: str) -> None:
    found = parse_problem(Row(1, MATH_ROWS[name]), "rows.jsonl", "rows")
    assert (found.format.name, found.problem.kind) == (name, "answer")
    assert found.problem.answer in ("0.75", "3/4", "\\frac{3}{4}")


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        (verl("34", data_source="math_dapo", ability="MATH", style="rule-lighteval/MATH_v2"), "34"),
        (verl(34, data_source="openai/gsm8k"), "34"),
        (verl(["\\boxed{\\frac{1}{2}}"], ability="math"), "\\frac{1}{2}"),
        ({"messages": [{"role": "user", "content": "?"}], "ground_truth": "7", "dataset": ["gsm8k"]}, "7"),
        ({"problem": "?", "answer": 204}, "204"),
        ({"prompt": "?", "task_id": "a", "answer": 0.5}, "0.5"),
    ],
)
def test_a_ground_truth_of_mathematics_is_an_answer(row: dict[str, Any], answer: str) -> None:
    problem = parsed(row)
    assert (problem.answer, problem.kind) == (answer, "answer")
    assert parsed(own_row(problem)) == problem
    assert not {"cases", "checker", "packages"} & own_row(problem).keys()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (verl("34", data_source="code_contests"), "only problems of code are supported"),
        (verl({"a": 1}, ability="MATH"), "must be an answer, as text or a number"),
        ({"question": "?", "answer": "It is 3.\n####"}, "has no answer after ####"),
        ({"problem": "?", "solution": "$\\boxed{3$"}, "is not closed"),
        ({"task_id": "a", "prompt": "?", "answer": " "}, "is empty"),
    ],
)
def test_a_row_whose_answer_is_not_known_is_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parsed(row)


def test_an_answer_beside_tests_is_no_check_of_its_own() -> None:
    row = {"task_id": "a", "prompt": "?", "tests": ["assert f() == 1"], "answer": "def f(): return 1"}
    assert (parsed(row).kind, parsed(row).answer) == ("tests", None)


@pytest.mark.parametrize("field", [{"packages": ("numpy",)}, {"checker": "def check(a, b, c): return 1"}])
def test_how_an_answer_is_judged_cannot_be_given(field: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="has no effect beside `answer`"):
        Problem("a", "?", answer="1", **field)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is \\boxed{1}, no, it is \\boxed{2}, because 3 > 2.", "\\boxed{2}"),
        ("\\boxed{1} or \\boxed{2}", "\\boxed{1} or \\boxed{2}"),
        ("$\\boxed{1}$, $\\boxed{2}$ and $\\boxed{3}$", "\\boxed{1}$, $\\boxed{2}$ and $\\boxed{3}"),
        ("\\boxed{\\frac{1}{2}}.", "\\boxed{\\frac{1}{2}}"),
        ("\\fbox {3}", "\\boxed{3}"),
        ("\\boxed{1} and then \\boxed{2", "\\boxed{1}"),
        ("\\boxed{" * 3000, ("\\boxed{" * 3000)[-2000:]),
        ("x" * 5000 + "34", "x" * 1998 + "34"),
    ],
)
def test_the_last_box_and_what_is_beside_it_is_the_answer(text: str, answer: str) -> None:
    assert stated(text) == answer


@pytest.mark.parametrize(
    ("text", "how", "code"),
    [
        ("<think>\\boxed{1}</think>It is \\boxed{2}.", Extraction.AUTO, "\\boxed{2}"),
        ("It is \\boxed{1}. <answer>2</answer>", Extraction.AUTO, "2"),
        ("<answer>1</answer> or <answer>2", Extraction.ANSWER, "2"),
        ("It is \\boxed{1}.", Extraction.ANSWER, None),
        ("<answer>\\boxed{1}</answer>", Extraction.EXACT, "\\boxed{1}"),
        ("So <answer>1</answer>", Extraction.EXACT, None),
        ("```\n3\n```", Extraction.FENCE, "3"),
        ("<think>1</think>", Extraction.RAW, "<think>1</think>"),
        (" ", Extraction.AUTO, None),
    ],
)
def test_an_answer_is_looked_for_where_the_option_says(text: str, how: Extraction, code: str | None) -> None:
    assert extract_code(Completion("a", "half", completion=text), HALF, how) == code


def test_a_model_is_asked_for_an_answer_and_for_no_code() -> None:
    system, user = chat_prompt(HALF)
    assert system["content"] == MATH_INSTRUCTION
    assert user["content"] == "What is 1 - 1/2?"


def test_there_are_200_pairs_half_of_them_right() -> None:
    assert (len(PAIRS), sum(pair.is_right for pair in PAIRS)) == (200, 100)
