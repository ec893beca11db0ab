"""Code that a problem gives to begin with, in every style of prompt, and right answers in every form."""

from __future__ import annotations

from typing import Any

import pytest

from sandrl.answers.continuation import join_to_starter
from sandrl.answers.extraction import extract_code
from sandrl.answers.requirements import starter_of
from sandrl.problems import Completion, Problem

HEADER = "def pairs(xs: List[int]) -> int:"
DOCSTRING = '    """Count the pairs.\n\n    >>> pairs([1, 2])\n    1\n    """'
IMPORTS = "from typing import List\n\n\n"
BODY = "    total = len(xs)\n    return total * (total - 1) // 2"
WHOLE = f"{HEADER}\n{BODY}"

CODE = {
    "docstring": f"{IMPORTS}{HEADER}\n{DOCSTRING}\n",
    "header": f"{IMPORTS}{HEADER}\n",
    "comment": f"{IMPORTS}{HEADER}\n    # Your code here\n",
    "pass": f"{IMPORTS}{HEADER}\n    pass\n",
    "pass in the same line": f"{IMPORTS}{HEADER} pass\n",
    "ellipsis": f"{IMPORTS}{HEADER}\n{DOCSTRING}\n    ...\n",
    "not implemented": f'{IMPORTS}{HEADER}\n    raise NotImplementedError("write me")\n',
    "helper before": f"{IMPORTS}def half(n):\n    return n // 2\n\n\n{HEADER}\n{DOCSTRING}\n",
}
STYLES = {
    "code alone": "{code}",
    "fence in prose": "Count the pairs of a list. Complete this function:\n\n```python\n{code}```\n\nIt's easy.",
    "fence without language": "Count the pairs.\n```\n{code}\n```",
    "two fences": "```python\n>>> pairs([1])\n0\n```\nWrite:\n~~~py\n{code}~~~",
    "after prose": "Count the pairs of a list. Don't sort it.\n\n{code}",
    "between prose": "Count the pairs of a list: it isn't hard.\n\n{code}\n\nReturn the number; don't print it.",
    "Windows lines": "Count the pairs.\r\n```python\r\n{code}```\r\n",
}
ANSWERS = {
    "body": BODY,
    "body without indentation": "total = len(xs)\nreturn total * (total - 1) // 2",
    "body whose first line lost its indentation": BODY.lstrip(),
    "whole function": WHOLE,
    "whole function with imports": IMPORTS + WHOLE,
    "whole function without types": WHOLE.replace(": List[int]", "").replace(" -> int", ""),
    "lambda": "pairs = lambda xs: len(xs) * (len(xs) - 1) // 2",
    "with a helper": f"def count(xs):\n    return len(xs)\n\n{HEADER}\n    n = count(xs)\n    return n * (n - 1) // 2",
}
WRAPPINGS = {
    "answer tag": "<answer>\n{code}\n</answer>",
    "fence": "Here it is:\n```python\n{code}\n```\nDone.",
    "tagged fence": "<answer>```python\n{code}\n```</answer>",
}


def value_of(code: str | None, expression: str) -> Any:
    assert code is not None
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    return eval(expression, namespace)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("given", CODE)
def test_a_right_answer_in_any_form_is_right_in_every_style_of_prompt(given: str, style: str, answer: str) -> None:
    code = CODE[given]
    prompt = STYLES[style].format(code=code.replace("\n", "\r\n") if style == "Windows lines" else code)
    for entry_point in ("pairs", None):
        problem = Problem("p", prompt, tests=("assert pairs([1, 2, 3]) == 3",), entry_point=entry_point)
        assert value_of(join_to_starter(problem, ANSWERS[answer]), "pairs([1, 2, 3])") == 3
    for wrapping in WRAPPINGS.values():
        completion = Completion("c", "p", completion=wrapping.format(code=ANSWERS[answer]))
        assert value_of(extract_code(completion, problem), "pairs([1, 2, 3])") == 3


@pytest.mark.parametrize("given", CODE)
def test_a_field_of_its_own_serves_like_the_prompt(given: str) -> None:
    prompt = "Count the pairs of a list; it isn't hard."
    problem = Problem("p", prompt, tests=("assert pairs([1]) == 0",), entry_point="pairs", starter_code=CODE[given])
    for answer in ANSWERS.values():
        assert value_of(join_to_starter(problem, answer), "pairs([1, 2, 3])") == 3


SOLUTION = "class Solution:\n    def pairs(self, xs: List[int]) -> int:\n"
METHOD = (
    "def pairs(self, xs):\n    return self.half(len(xs) * (len(xs) - 1))\n\n\ndef half(self, n):\n    return n // 2"
)
CLASS = "class Solution:\n    def pairs(self, xs):\n        return len(xs) * (len(xs) - 1) // 2"
METHODS = {
    "body": "        return len(xs) * (len(xs) - 1) // 2",
    "body with less indentation": "    n = len(xs)\n    return n * (n - 1) // 2",
    "method": "    def pairs(self, xs):\n        return len(xs) * (len(xs) - 1) // 2",
    "method without indentation": "def pairs(self, xs: List[int]) -> int:\n    return len(xs) * (len(xs) - 1) // 2",
    "two methods": METHOD,
    "class": CLASS,
    "class with imports": f"from typing import List\n\n\n{SOLUTION}        return len(xs) * (len(xs) - 1) // 2",
    "class with types of the preamble": f"{SOLUTION}        return len(xs) * (len(xs) - 1) // 2",
}


@pytest.mark.parametrize("answer", METHODS)
@pytest.mark.parametrize("entry_point", ["Solution", "Solution.pairs", "Solution().pairs", "pairs"])
@pytest.mark.parametrize(
    "prompt", ["{code}", "It isn't hard:\n```python\n{code}```", "It isn't hard:\n\n{code}        pass\n\nDo it."]
)
def test_a_method_of_a_class_is_completed(prompt: str, entry_point: str, answer: str) -> None:
    is_typed = "List" in METHODS[answer] and "import" not in METHODS[answer]
    for code in [
        f"from typing import List\n\n{SOLUTION}",
        *([] if is_typed else [SOLUTION.replace(": List[int]", "")]),
    ]:
        text = prompt.format(code=code)
        problem = Problem("p", text, tests=("assert Solution().pairs([1, 2, 3]) == 3",), entry_point=entry_point)
        assert value_of(join_to_starter(problem, METHODS[answer]), "Solution().pairs([1, 2, 3])") == 3


@pytest.mark.parametrize(
    ("prompt", "entry_point"),
    [
        ("Write `double(n)`.", "double"),
        ("Write a function double(n). def is a keyword, isn't it?", "double"),
        ("Write:\n```\ndouble(2) -> 4\n```", "double"),
        ("Fix it:\n```python\ndef halve(n):\n    return n * 2\n```\nName it `double`.", "double"),
        ("", "double"),
        ("```python\ndef double(n:\n```", "double"),
    ],
)
def test_prose_is_never_put_before_an_answer(prompt: str, entry_point: str) -> None:
    problem = Problem("p", prompt, tests=("assert double(2) == 4",), entry_point=entry_point)
    assert starter_of(problem) is None
    assert join_to_starter(problem, "def double(n):\n    return n + n") == "def double(n):\n    return n + n"


def test_a_function_that_is_there_already_is_not_continued() -> None:
    prompt = "Fix the error:\n```python\nimport math\n\ndef root(n):\n    return math.sqrt(n) + 1\n```"
    problem = Problem("p", prompt, tests=("assert root(4) == 2",), entry_point="root")
    assert value_of(join_to_starter(problem, "def root(n):\n    return math.sqrt(n)"), "root(4)") == 2
    assert join_to_starter(problem, "print(2)") == "print(2)"


def test_a_body_of_a_function_that_only_fails_does_not_come_after_its_failure() -> None:
    prompt = "def one():\n    raise NotImplementedError"
    problem = Problem("p", prompt, tests=("assert one() == 1",), entry_point="one")
    assert join_to_starter(problem, "return 1") == "def one():\n    return 1"
