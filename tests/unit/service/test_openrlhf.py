"""The completion in the text that OpenRLHF sends."""

from __future__ import annotations

import pytest

from sandrl.service.openrlhf import completion_in

PROMPT = "<|im_start|>user\nAdd two numbers.\n```python\nassert add(1, 2) == 3\n```<|im_end|>\n<|im_start|>assistant\n"
ANSWER = "```python\ndef add(a, b):\n    return a + b\n```"


@pytest.mark.parametrize(
    "query",
    [
        PROMPT + ANSWER,
        PROMPT + ANSWER + "<|im_end|>",
        PROMPT + ANSWER + "<|im_end|>\n<|endoftext|>",
        PROMPT + ANSWER + "</s>",
        "<s>" + PROMPT + ANSWER,
        "<s> " + PROMPT.replace("\n", " \n") + ANSWER,
        # The beginning of a long prompt was cut off.
        PROMPT[20:] + ANSWER,
    ],
)
def test_the_completion_is_what_stands_after_the_prompt(query: str) -> None:
    found = completion_in(query, PROMPT)
    assert found is not None
    assert found.strip() == ANSWER


def test_code_in_a_prompt_is_never_taken_for_an_answer() -> None:
    assert completion_in("another text with ```python\nassert add(1, 2) == 3\n```", PROMPT) is None
    assert completion_in(PROMPT + "I do not know.", PROMPT) == "I do not know."
    assert completion_in(ANSWER, "") == ANSWER


def test_a_prompt_in_the_middle_of_a_text_is_no_prompt() -> None:
    """What stands before it would be cut off, and may be the answer."""
    answer = f"Sure:\n{ANSWER}\nThis will add two numbers, given as a and b."
    assert completion_in(answer, "add two numbers, given as a and b") is None
    assert completion_in("prefix that is no token " + PROMPT + ANSWER, PROMPT) is None


def test_a_prompt_that_was_cut_off_and_is_repeated_by_the_answer_is_cut_off_once() -> None:
    text = "x" * 50 + " Write f, which adds one to a number."
    found = completion_in(text[30:] + f"\n{text}\n{ANSWER}", text)
    assert found is not None
    assert found.strip() == f"{text}\n{ANSWER}"


def test_long_and_degenerate_texts_take_no_time_to_speak_of() -> None:
    """Each of these took minutes where the work grows with the square of the length."""
    blank = "\n" * 300_000
    assert completion_in(PROMPT + blank + "x", PROMPT) == blank + "x"
    assert completion_in("ab" * 200_000, "ba" * 200_000 + "c") is None
    assert completion_in(PROMPT + "<|im_end|>\n" * 20_000, PROMPT) == ""
