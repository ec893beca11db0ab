"""What counts as the code of a completion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.answers.continuation import join_to_starter
from sandrl.answers.extraction import Extraction, extract
from sandrl.answers.markup import fences
from sandrl.problems import Problem

PROMPT = 'from typing import List\n\n\ndef total(xs: List[int]) -> int:\n    """Sum.\n    """\n'
TOTAL = Problem("total", PROMPT, tests=("assert total([1]) == 1",), entry_point="total")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<answer>x = 1</answer>", "x = 1"),
        ("<answer>old</answer> no, wait <answer>new</answer>", "new"),
        ("<answer>\nx = 1\ny = 2\n", "x = 1\ny = 2"),
        ("<answer>```python\nx = 1\n```</answer>", "x = 1"),
        ("<answer>\n```python\nx = 1\n```\n</answer>", "x = 1"),
        ("<answer>So:\n```\nx = 1\n```\nDone.", "x = 1"),
        ("```python\nbefore\n```\n<answer>x = 1</answer>", "x = 1"),
        ("```python\nx = 1\n```", "x = 1"),
        ("```py\nx = 1\n```\nthen run\n```bash\npython x.py\n```", "x = 1"),
        ("```\nfirst\n```\n```\nsecond\n```", "second"),
        ("```python\nfirst\n```\n```python\nsecond\n```", "second"),
        ("```bash\npip install x\n```\n```python\nx = 1\n", "x = 1"),
        ("```python\nx = 1\n```\n```python\ny = ", "x = 1"),
        ("~~~python\nx = 1\n~~~", "x = 1"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
        ("- step\n\n  ```python\n  def f():\n      return 1\n  ```", "def f():\n    return 1"),
        ("```Python\r\nx = 1\r\n```\r\n", "x = 1"),
        ("<code>x = 1</code>", "x = 1"),
        ("<code>old</code><code>\n    x = 1\n</code>", "x = 1"),
        ("`<code>` is a tag: <code>x = 1</code>", "x = 1"),
    ],
)
def test_auto_finds_the_models_last_word(text: str, code: str) -> None:
    assert extract(text) == code


@pytest.mark.parametrize(
    "text", ["", "I do not know.", "<answer></answer>", "<answer>  \n</answer>", "```python\n```", "x = 1"]
)
def test_auto_finds_no_code_where_there_is_none(text: str) -> None:
    assert extract(text) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<answer>x = 1</answer>", "x = 1"),
        ("  <answer>x = 1</answer>\n", "x = 1"),
        ("<answer>x = 1</answer> rambling", None),
        ("rambling <answer>x = 1</answer>", None),
        ("<answer>x = 1", None),
        ("<answer>a</answer><answer>b</answer>", None),
        ("x = 1", None),
        ("<ANSWER x='1'>x = 1</ANSWER><|im_end|>\n", "x = 1"),
        ("<answer>x = 1</answer> Done.<|im_end|>", None),
    ],
)
def test_exact_demands_that_the_whole_text_is_one_answer(text: str, code: str | None) -> None:
    assert extract(text, Extraction.EXACT) == code


def test_answer_and_fence_look_for_nothing_else() -> None:
    both = "```python\nfenced\n```\n<answer>answered</answer>"
    assert extract(both, Extraction.ANSWER) == "answered"
    assert extract(both, Extraction.FENCE) == "fenced"
    assert extract("```python\nx\n```", Extraction.ANSWER) is None
    assert extract("<answer>x</answer>", Extraction.FENCE) is None


def test_raw_takes_the_text_as_it_is() -> None:
    assert extract("  x = 1\n", Extraction.RAW) == "  x = 1\n"
    assert extract(" \n", Extraction.RAW) is None


def test_inline_code_is_no_fence() -> None:
    assert fences("use ```x``` here\n") == []


@pytest.mark.parametrize(
    "code", ["def total(xs):\n    return 0", "total = sum", "class total:\n    pass", "async def total(xs): ..."]
)
def test_code_that_defines_the_entry_point_gets_the_prompts_imports_and_nothing_else(code: str) -> None:
    assert join_to_starter(TOTAL, code) == f"from typing import List\n\n{code}"


def test_a_future_import_stays_before_the_imports_of_the_prompt() -> None:
    code = "from __future__ import annotations\ndef total(xs): ..."
    joined = join_to_starter(TOTAL, code)
    assert joined == "from __future__ import annotations\n\nfrom typing import List\n\ndef total(xs): ..."


code_lines = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="`~<>"), max_size=30),
    min_size=1,
).map("\n".join)


@given(st.text(st.sampled_from("`~<>/answercodepy \n\tx"), max_size=200), st.sampled_from(Extraction))
def test_any_text_is_read_without_error(text: str, how: Extraction) -> None:
    code = extract(text, how)
    assert code is None or code.strip()


@given(
    code_lines.filter(lambda code: bool(code.strip())),
    st.sampled_from(["```python\n{}\n```", "<answer>\n{}\n</answer>", "so\n~~~\n{}\n~~~\nok"]),
)
def test_code_survives_its_wrapping_up_to_outer_blanks(code: str, wrapping: str) -> None:
    found = extract(wrapping.format(code))
    assert found is not None
    assert [line.strip() for line in found.strip().split("\n")] == [line.strip() for line in code.strip().split("\n")]


def test_ten_megabytes_of_fences_are_read_before_the_test_times_out() -> None:
    text = "```python\nx\n```\n<answer\n" * 400_000
    assert extract(text) == "x"
