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


def test_an_empty_prompt_leaves_all() -> None:
    assert completion_in(ANSWER, "") == ANSWER
