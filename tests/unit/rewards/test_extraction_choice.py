"""Which of the blocks of a completion are the answer, where the problem says what is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sandrl.answers.extraction import extract_code
from sandrl.problems import Case, Completion, Problem

DOUBLE = "def double(n):\n    return 2 * n"
WRONG = "def double(n):\n    return n"
PROBLEM = Problem("double", "Write `double(n)`.", tests=("assert double(2) == 4",), entry_point="double")
PAIR = Problem("pair", "", tests=("assert make(Node(1)) == 1",), reference="class Node: ...\ndef make(n): return 1")
PROGRAM = Problem("program", "", cases=(Case("1\n", "2\n"),))
PRINTER = Problem("printer", "", cases=(Case("", "2\n"),))
BODY = Problem(
    "body",
    'from math import pi\n\n\ndef area(r: float) -> float:\n    """Area of a circle."""\n',
    tests=("assert area(1) > 3",),
    entry_point="area",
)


def code_of(text: str, problem: Problem = PROBLEM) -> str | None:
    return extract_code(Completion("id", problem.task_id, completion=text), problem)


def fence(code: str, language: str = "python") -> str:
    return f"```{language}\n{code}\n```"


@pytest.mark.parametrize(
    "text",
    [
        f"{fence(DOUBLE)}\nExample usage:\n{fence('print(double(2))')}",
        f"{fence(DOUBLE)}\n{fence('>>> double(2)')}\n{fence('4', 'text')}",
        f"{fence(WRONG)}\nBetter:\n{fence(DOUBLE)}\n{fence('double(2)', '')}",
        f"{fence(DOUBLE)}\nThe signature was\n{fence('def double(n): ...')}",
        f"{fence(DOUBLE)}\n{fence('def double(n')}",
        f"<answer>\n{DOUBLE}\n</answer>\nAs asked, it is between <answer> and </answer>.",
        f"<answer>\n{DOUBLE}\n</answer>\nThe <answer> tag is closed.",
        f"<answer>\n{DOUBLE}\n</answer>\nThere is no second <answer></answer> in it.",
        f"<ANSWER lang='python'>\n{fence(DOUBLE)}\n</ANSWER>",
        f"<think>{fence(WRONG)} <answer></answer></think>\n{fence(DOUBLE)}",
        f"<answer></answer> is wanted.\n{fence(WRONG)}\n</think>\n{fence(DOUBLE)}",
        f"<think>\n{fence(WRONG)}\nNo:\n{fence(DOUBLE)}",
        f"<think>\n```python\ndef double(\n</think>\n{fence(DOUBLE)}",
        f"[THINK]{WRONG}[/THINK]{fence(DOUBLE)}",
        f"{fence(DOUBLE)}<|im_end|>",
        f"{fence(DOUBLE)}\n<|endoftext|></s>",
        f"{DOUBLE}<|eot_id|>",
        DOUBLE,
        f"Here it is:\n\n{DOUBLE}\n\nIt doubles.",
        "> " + fence(DOUBLE).replace("\n", "\n> "),
        "- " + fence(DOUBLE).replace("\n", "\n  "),
        f"````markdown\nText\n\n{fence(DOUBLE)}\n````",
        fence(DOUBLE, "{.python .numberLines}") + "\n" + fence("double(1)", "sh"),
        fence(DOUBLE).replace("\n", "\r\n") + "\r\n" + fence("print(double(1))").replace("\n", "\r\n"),
        f"```python\n{DOUBLE}```",
        f"```python\n{DOUBLE}\n\nThis doubles a number.",
        f"<answer>\nHere it is:\n{DOUBLE}\n</answer>",
        f"<answer>\n{DOUBLE}\n\nThis doubles a number.",
        f"[PYTHON]\n{DOUBLE}\n[/PYTHON]",
        f"<think>{WRONG}</think><solution>\n{DOUBLE}\n</solution>",
    ],
)
def test_the_code_is_the_last_block_that_defines_what_is_asked_for(text: str) -> None:
    assert code_of(text) == DOUBLE


@pytest.mark.parametrize(
    "definition",
    [
        "double = lambda n: 2 * n",
        "from operator import index as double",
        "import operator as double",
        "async def double(n): return n",
        "class double(int): pass",
        "if True:\n    def double(n): return 2 * n",
        "try:\n    from fast import double\nexcept ImportError:\n    def double(n): return 2 * n",
        "def make():\n    global double\n    double = abs\nmake()",
        "double: object = abs",
        "a, double = 1, abs",
        "for double in [abs]: pass",
    ],
)
def test_every_form_of_binding_a_name_is_a_definition(definition: str) -> None:
    assert code_of(f"{fence(definition)}\n{fence('print(double(1))')}") == definition


@pytest.mark.parametrize(
    "code",
    [
        'def double(n):\n    """Double.\n\n    ```\n    double(1)\n    ```\n    """\n    return 2 * n',
        'def double(n):\n    text = """\n```python\n"""\n    text += """\n```\n"""\n    return 2 * n',
        'def double(n):\n    """Not </answer> but <answer>code</answer>."""\n    return 2 * n',
        'def double(n):\n    # ends at </think>\n    return 2 * n if n != "<|im_end|>" else 0',
    ],
)
def test_markup_in_a_string_or_a_comment_of_the_code_is_code(code: str) -> None:
    for text in (fence(code), f"<answer>\n{code}\n</answer>", f"<answer>{fence(code)}</answer>", code):
        assert code_of(text) == code
        assert code_of(f"<think>\n{WRONG}\n</think>\n{text}") == code


def test_blocks_that_need_each_other_are_joined_and_no_others() -> None:
    helper, user, other = "def two(): return 2", "def double(n): return two() * n", "def three(): return 3"
    blocks = [fence(each) for each in (other, helper, user, "print(double(3), three())")]
    assert code_of("\n".join(blocks)) == f"{helper}\n\n{user}"
    assert code_of("\n".join(reversed(blocks))) == f"{helper}\n\n{user}"


def test_a_block_that_changes_an_earlier_definition_is_joined_to_it() -> None:
    change = "import functools\ndouble = functools.cache(double)"
    assert code_of(f"{fence(DOUBLE)}\n{fence(change)}") == f"{DOUBLE}\n\n{change}"


def test_star_imports_and_settings_of_the_interpreter_are_joined_too() -> None:
    star, setting, user = (
        "from math import *",
        "import sys\nsys.setrecursionlimit(9000)",
        "def double(n): return tau * n",
    )
    assert code_of(f"{fence(star)}\n{fence(setting)}\n{fence(user)}") == f"{star}\n\n{setting}\n\n{user}"
    assert code_of(f"{fence(star)}\n{fence(DOUBLE)}") == DOUBLE
    program = "print(int(input()) + 1)"
    assert code_of(f"{fence(setting)}\n{fence(program)}", PROGRAM) == f"{setting}\n\n{program}"


def test_all_names_of_the_checks_that_the_reference_defines_are_looked_for() -> None:
    node, make = "class Node:\n    def __init__(self, x): pass", "def make(node): return 1"
    assert code_of(f"{fence(node)}\n{fence(make)}\n{fence('print(make(Node(2)))')}", PAIR) == f"{node}\n\n{make}"


def test_joined_blocks_have_their_future_imports_first() -> None:
    first, second = "def two(): return 2", "from __future__ import annotations\ndef double(n: N): return two() * n"
    code = code_of(f"{fence(first)}\n{fence(second)}")
    assert code is not None
    assert code.startswith("from __future__ import annotations")
    compile(code, "code", "exec")


@pytest.mark.parametrize(
    ("blocks", "chosen"),
    [
        (("print(int(input()) + 1)", "5"), "print(int(input()) + 1)"),
        (("print(int(input()) + 1)", "print(2)"), "print(int(input()) + 1)"),
        (("print(1)", "print(int(input()) + 1)"), "print(int(input()) + 1)"),
        (("def f(): return int(input())", "print(f() + 1)"), "def f(): return int(input())\n\nprint(f() + 1)"),
        (("def f(): print(int(input()) + 1)\nf()", "f()"), "def f(): print(int(input()) + 1)\nf()"),
    ],
)
def test_a_program_is_the_last_block_that_is_whole_and_reads_its_input(blocks: tuple[str, ...], chosen: str) -> None:
    assert code_of("\n".join(fence(each, "") for each in blocks), PROGRAM) == chosen


def test_a_program_without_input_need_not_read() -> None:
    assert code_of(f"{fence('import sys; x = input()')}\n{fence('print(2)')}", PRINTER) == "print(2)"
    assert code_of("print(1 + 1)", PRINTER) == "print(1 + 1)"


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{fence(DOUBLE)}</think>\n{fence(WRONG)}",
        f"{fence(DOUBLE)}\n</think>\n<answer>\n{WRONG}\n</answer>",
        f"{fence(DOUBLE)}\nNo:\n{fence(WRONG)}",
        f"<answer>{DOUBLE}</answer> No: <answer>{WRONG}</answer>",
        f"{fence(DOUBLE)}\n<answer>\n{WRONG}\n</answer>",
        f"{fence(WRONG)}\n{fence(DOUBLE, 'text')}",
    ],
)
def test_a_right_draft_does_not_replace_a_wrong_answer(text: str) -> None:
    assert code_of(text) == WRONG


@pytest.mark.parametrize(
    "text",
    [
        f"{fence(DOUBLE)}\n<answer>\ndef other():\n    return 1\n</answer>",
        f"{fence(DOUBLE)}\n<answer>\ndef double(n)\n    return n\n</answer>",
    ],
)
def test_an_answer_that_is_code_is_final_even_if_it_is_no_solution(text: str) -> None:
    code = code_of(text)
    assert code is not None
    assert "2 * n" not in code


@pytest.mark.parametrize(
    "answer",
    [
        "Answer: {}",
        "<|assistant|>{}",
        "<|channel|>final<|message|>{}<|return|>",
        "\ufeff{}",
        "最终代码：{}",
        "**Answer:**{} That is all.",
    ],
)
def test_a_fence_within_its_line_is_the_answer_after_a_draft(answer: str) -> None:
    for first, last in ((DOUBLE, WRONG), (WRONG, DOUBLE)):
        for draft in (fence(first), f"Draft: {fence(first)}", f"{fence(first)} Or:", f"{first}\n```"):
            assert code_of(f"{draft}\n{answer.format(fence(last))}") == last


@pytest.mark.parametrize(
    "end", ["\n```", "\n```\nIt doubles.", "``` It doubles.", "\n```<|im_end|>", "</answer>", "\n[DONE]\nNext."]
)
def test_a_prompt_may_end_with_what_opens_the_answer(end: str) -> None:
    assert code_of(DOUBLE + end) == DOUBLE
    body = code_of("    return pi * r * r" + end, BODY)
    assert body is not None
    assert body.endswith("return pi * r * r")


@pytest.mark.parametrize(
    "rest", ["I cannot solve it.", "The answer is above.", "Use `lambda n: 2 * n`.", "```text\ndouble\n```"]
)
@pytest.mark.parametrize(
    "reasoning",
    [
        "<think>{}</think>",
        "{}</think>",
        "<think>a</think><think>{}</think>",
        "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>",
        "analysisSo {}assistantfinal",
        "<|START_THINKING|>{}<|END_THINKING|>",
    ],
)
def test_code_in_reasoning_counts_only_where_nothing_follows(reasoning: str, rest: str) -> None:
    text = reasoning.format(f"\n{fence(DOUBLE)}\n")
    assert code_of(f"{text}\n{rest}") != DOUBLE
    assert code_of(f"{text}\n<|im_end|>") == DOUBLE


@pytest.mark.parametrize(
    "after",
    [
        "<|im_end|>\n<|im_start|>user\nNext.<|im_end|>\n<|im_start|>assistant\n",
        "<|endoftext|>Next:\n",
        "</s>[INST] Next. [/INST] ",
    ],
)
def test_an_answer_ends_with_its_turn(after: str) -> None:
    assert code_of(f"{fence(DOUBLE)}{after}{fence(WRONG)}") == DOUBLE
    tokens = f'def chat(text):\n    return "<|im_start|>user" + text\n\n\n{DOUBLE}'
    assert code_of(fence(tokens)) == tokens


def test_an_empty_answer_is_final_after_a_right_draft() -> None:
    assert code_of(f"<think>{fence(DOUBLE)}</think>\n<answer></answer>") is None


def test_where_no_block_compiles_the_last_one_is_the_code() -> None:
    assert code_of(f"{fence('def double(')}\n{fence('def double(n:')}") == "def double(n:"


@pytest.mark.parametrize(
    "text",
    [
        "    return pi * r * r",
        "return pi * r * r",
        "    # Pi.\n    x = pi * r * r\n    return x",
        "x = pi * r * r\n    return x",
        "# Pi.\n    x = pi * r * r\n    return x",
        "    x = pi * r * r\n    return x\n\nThis is the area.",
    ],
)
def test_a_body_continues_its_prompt_whatever_became_of_its_indentation(text: str) -> None:
    for each in (text, fence(text), f"<answer>\n{text}\n</answer>", f"{fence(text)}\n{fence('print(area(1))')}"):
        code = code_of(each, BODY)
        assert code is not None
        assert code.startswith("from math import pi")
        namespace: dict[str, object] = {}
        exec(code, namespace)
        assert namespace["area"](1) > 3  # type: ignore[operator]


def test_prose_is_no_body_and_no_code() -> None:
    for text in ("The answer is double.", "double", "import this carefully, then wait", "pi"):
        assert code_of(text) is None
        assert code_of(text, BODY) is None


def test_code_in_a_row_is_taken_as_it_is() -> None:
    assert extract_code(Completion("id", "double", code="<answer>x</answer>"), PROBLEM) == "<answer>x</answer>"


@pytest.mark.parametrize(
    "hostile",
    [
        "(" * 200_000,
        "-" * 100_000 + "1",
        "f(" * 5_000,
        "a" + ".b" * 50_000,
        "".join(" " * depth + "if 1:\n" for depth in range(200)),
        "x = 1\0",
        "\ud800",
        "lambda: " * 20_000,
        "9**" * 10_000 + "9",
    ],
)
def test_hostile_code_is_refused_without_harm(hostile: str) -> None:
    assert code_of(f"{fence(hostile)}\n{fence(DOUBLE)}\n{fence(hostile)}") == DOUBLE


def test_many_threads_extract_at_once() -> None:
    text = f"{fence(DOUBLE)}\n{fence('print(' + '[' * 50 + '1' + ']' * 50 + ')')}"
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(code_of, [text] * 400)) == {DOUBLE}
