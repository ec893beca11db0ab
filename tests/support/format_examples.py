"""Rows of every format with right and wrong answers: what every command must agree on.

The answers to the rows of `format_rows` follow from what these ask for (print what is read, or a function `double`).
`MORE` has rows of other shapes, each with answers of its own: methods of classes, helpers, packed tests, calls. Right
answers come in every style that a row allows; wrong ones are stubs and small changes of the right one.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandrl.jsonl import Row
from sandrl.problems import Problem
from sandrl.problems.formats import parse_problem
from tests.support.format_rows import ROWS


@dataclass(frozen=True)
class Example:
    """A row with answers."""

    format: str
    row: Mapping[str, Any]
    right: Mapping[str, str]
    wrong: Mapping[str, str]

    @property
    def problem(self) -> Problem:
        """The problem of the row."""
        return parse_problem(Row(1, dict(self.row)), "examples.jsonl").problem


def styled(code: str, language: str = "python") -> dict[str, str]:
    """An answer in the styles that every row allows."""
    return {
        "bare": code,
        "prose": f"Sure! We do it step by step:\n\n```{language}\n{code}```\n\nThis takes O(n) time. Does it help?",
        "answer": f"<answer>\n{code}</answer>",
    }


_ECHO = "import sys\ntext = sys.stdin.read()\nsys.stdout.write(text)\n"
_ECHO_MAIN = (
    "def main():\n    while True:\n        try:\n            print(input())\n        except EOFError:\n"
    "            return\n"
)
_DOUBLE = 'def double(n):\n    """Double it."""\n    return n + n\n'
_ECHO_RIGHT = styled(_ECHO) | {"main": f"```python\n{_ECHO_MAIN}\nif __name__ == '__main__':\n    main()\n```"}
_ECHO_WRONG = {"nothing": "", "stub": "pass", "constant": "print(1)", "mutant": "print(int(input()) + 1)"}
_DOUBLE_RIGHT = styled(_DOUBLE) | {
    "lambda": "```python\ndouble = lambda n: 2 * n\n```",
    "helper": "```python\ndef _twice(n):\n    return n * 2\n\ndef double(n):\n    return _twice(n)\n```",
}
_DOUBLE_WRONG = {
    "nothing": "",
    "none": "def double(n):\n    pass\n",
    "argument": "def double(n):\n    return n\n",
    "constant": "```python\ndef double(n):\n    return 2\n```",
    "mutant": "<answer>def double(n):\n    return n + 1</answer>",
    "other name": "def twice(n):\n    return 2 * n\n",
    "syntax": "def double(n)\n    return 2 * n\n",
}
_BODY = {"body": "    return n * 2\n"}


def _of_row(number: int, name: str, row: Mapping[str, Any]) -> Example:
    row = {**row, "task_id": f"{name} {number}"}
    problem = parse_problem(Row(1, row), "examples.jsonl").problem
    if problem.cases:
        return Example(name, row, _ECHO_RIGHT, _ECHO_WRONG)
    # A body needs a definition that it continues.
    continues = "def double" in problem.prompt + problem.starter_code
    return Example(name, row, _DOUBLE_RIGHT | (_BODY if continues else {}), _DOUBLE_WRONG)


def _packed(tests: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


_STARTER = "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n        "
_TWO_SUM = (
    "class Solution:\n    def twoSum(self, nums: List[int], target: int) -> List[int]:\n        seen = {}\n"
    "        for i, n in enumerate(nums):\n            if target - n in seen:\n"
    "                return [seen[target - n], i]\n            seen[n] = i\n        return []\n"
)
_TYPED_TWO_SUM = "from typing import List\n\n" + _TWO_SUM
_TWO_SUM_BODY = "".join(line[8:] for line in _TWO_SUM.splitlines(keepends=True)[2:])
_TWO_SUM_RIGHT = styled(_TYPED_TWO_SUM) | {
    # Whose starter code is annotated so provides the names, as LeetCode does.
    "untyped": f"```python\n{_TWO_SUM}```",
    "body": f"```python\n{_TWO_SUM_BODY}```",
    "tuple": "```python\nclass Solution:\n    def twoSum(self, nums, target):\n"
    "        return next((i, j) for j in range(len(nums)) "
    "for i in range(j) if nums[i] + nums[j] == target)\n```",
    # Graders call a function where an answer has no class.
    "function": "```python\ndef twoSum(nums, target):\n    for j, n in enumerate(nums):\n"
    "        if target - n in nums[:j]:\n            return [nums.index(target - n), j]\n```",
    "helper": "```python\nclass Solution:\n    def _find(self, nums, t):\n        for j, n in enumerate(nums):\n"
    "            if t - n in nums[:j]:\n                return [nums.index(t - n), j]\n\n"
    "    def twoSum(self, nums, target):\n"
    "        return self._find(nums, target)\n```",
}
_TWO_SUM_WRONG = {
    "nothing": "",
    "stub": "class Solution:\n    def twoSum(self, nums, target):\n        pass\n",
    "values": "class Solution:\n    def twoSum(self, nums, target):\n"
    "        return [n for n in nums if target - n in nums]\n",
    "first": "class Solution:\n    def twoSum(self, nums, target):\n        return [0, 1]\n",
    "text": "class Solution:\n    def twoSum(self, nums, target):\n        return '[0, 1]'\n",
}
_TWO_SUM_PAIRS: list[tuple[list[Any], Any]] = [
    ([[2, 7, 11], 9], [0, 1]),
    ([[3, 2, 4], 6], [1, 2]),
    ([[3, 3], 6], [0, 1]),
]
_LINES = [
    {"input": "\n".join(map(json.dumps, given)), "output": json.dumps(expected), "testtype": "functional"}
    for given, expected in _TWO_SUM_PAIRS
]
_COLUMNS = {
    "fn_name": "twoSum",
    "inputs": [given for given, _ in _TWO_SUM_PAIRS],
    "outputs": [[expected] for _, expected in _TWO_SUM_PAIRS],
}

_MEAN = "def mean(numbers):\n    return sum(numbers) / len(numbers) if numbers else 0.0\n"
_MEAN_WRONG = {
    "nothing": "",
    "stub": "def mean(numbers):\n    return 0.0\n",
    "floor": "def mean(numbers):\n    return sum(numbers) // len(numbers) if numbers else 0.0\n",
    "empty": "def mean(numbers):\n    return sum(numbers) / len(numbers)\n",
}

_POLY_PROMPT = (
    "import math\n\n\ndef poly(xs: list, x: float):\n"
    "    return sum(c * math.pow(x, i) for i, c in enumerate(xs))\n\n\n"
    'def find_zero(xs: list):\n    """A zero of a polynomial of degree 1.\n    >>> find_zero([1, 2])\n    -0.5\n'
    '    """\n'
)
_POLY_CHECK = (
    "METADATA = {}\n\ndef check(candidate):\n    for a in range(-3, 4):\n        for b in (1, 2, 5):\n"
    "            assert abs(poly([a, b], candidate([a, b]))) < 1e-9\n"
)

_STACK_TESTS = [
    "s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2\nassert s.pop() == 1",
    "def test_empty():\n    import pytest\n    with pytest.raises(IndexError):\n        Stack().pop()",
]
_STACK = (
    "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):\n"
    "        self.items.append(item)\n\n"
    "    def pop(self):\n        return self.items.pop()\n"
)

_PYTEST = (
    "import pytest\nfrom solution import parse_pair, PairError\n\n\n"
    "@pytest.mark.parametrize('text, pair', [('1,2', (1, 2)), "
    "(' -1 , 3', (-1, 3))])\ndef test_pairs(text, pair):\n    assert parse_pair(text) == pair\n\n\ndef test_bad():\n"
    "    with pytest.raises(PairError):\n        parse_pair('1')\n"
)
_PAIR = (
    "class PairError(ValueError):\n    pass\n\n\ndef parse_pair(text):\n    parts = text.split(',')\n"
    "    if len(parts) != 2:\n"
    "        raise PairError(text)\n    return int(parts[0]), int(parts[1])\n"
)

_COUNT_PROMPT = (
    "from collections import Counter\nimport json\n\ndef count_words(text):\n"
    '    """Count the words as JSON.\n\n    Requirements:\n    - collections\n    - json\n    """\n'
)
_COUNT_TEST = (
    "import unittest\nimport json\n\nclass TestCases(unittest.TestCase):\n    def setUp(self):\n"
    "        self.text = 'a b a'\n\n"
    "    def test_counts(self):\n        self.assertEqual(json.loads(count_words(self.text)), {'a': 2, 'b': 1})\n\n"
    "    def test_empty(self):\n        self.assertEqual(count_words(''), '{}')\n"
)

_SUM_CASES = {"input": ["2\n1 2\n", "1\n5\n", "3\n1 -1 0\n"], "output": ["3\n", "     5\n", "0"]}
_SUM = "n = int(input())\nprint(sum(map(int, input().split())))\n"
_SUM_WRONG = {
    "nothing": "",
    "stub": "print(0)\n",
    "first": "input()\nprint(input().split()[0])\n",
    "crash": "print(sum(map(int, input().split()[7])))\n",
}

_BASH = "double() {\n    echo $(( $1 * 2 ))\n}\n"
_BASH_TESTS = (
    '}\n\ncandidate() {\n    double "$@"\n}\n\nset -e\nrun_test() {\n    [[ $(candidate "1") = "2" ]]\n'
    '    [[ $(candidate "4") = "8" ]]\n}\n\nrun_test'
)

_TWO_SUM_CHECK = (
    "def check(candidate):\n"
    + "".join(
        f"    assert list(candidate(nums={given[0]}, target={given[1]})) == {expected}\n"
        for given, expected in _TWO_SUM_PAIRS
    )
    + "\n\n"
)
_AREA = "def area(a, b):\n    return a * b\n"
_AREA_TESTS = ["assert area(2, 3) == 6", "assert area(0, 5) == 0", "assert area(1.5, 2) == 3"]
_AREA_STARTER = "def area(a, b):\n    "
_AREA_RIGHT = styled(_AREA) | {
    "class": "<think>Perhaps\n```python\ndef area(a, b): return a\n```\nbut no.</think>\n"
    "```python\nclass Solution:\n    def area(self, a, b):\n        return b * a\n```",
    "marks": f"[BEGIN]\n{_AREA}[DONE]",
    "end mark": f"{_AREA}[DONE]\n",
    "example": f"```python\n{_AREA}```\nFor example:\n```python\nprint(area(1, 2))\n# Output: 2\n```",
}
_AREA_WRONG = {
    "nothing": "",
    "marks": "[BEGIN]\n[DONE]",
    "sum": f"[BEGIN]\n{_AREA.replace('*', '+')}[DONE]",
    "list": "def area(a, b):\n    return [a * b]\n",
    "class": "class Solution:\n    def area(self, a, b):\n        return a\n",
}


def _verl(name: str, prompt: str, tests: Any) -> dict[str, Any]:
    return {
        "task_id": name, "data_source": "code", "prompt": [{"role": "user", "content": prompt}], "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": tests if isinstance(tests, str) else json.dumps(tests)},
    }  # fmt: skip


def _without_classes(answers: Mapping[str, str]) -> dict[str, str]:
    return {style: text for style, text in answers.items() if "Solution" not in text}


# Rows that ask for the same, each in the way of its set.
_TWO_SUM_ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "DeepCoder",
        {
            "task_id": "deepcoder metadata", "problem": "Two numbers.", "starter_code": _STARTER,
            "tests": json.dumps([{**each, "metadata": {"func_name": "twoSum"}} for each in _LINES]),
        },
    ),
    (
        "LiveCodeBench",
        {
            "task_id": "lcb call", "question_content": "Two numbers that add up.", "starter_code": _STARTER,
            "public_test_cases": json.dumps(_LINES[:1]), "private_test_cases": _packed(_LINES[1:]),
            "metadata": json.dumps({"func_name": "twoSum"}),
        },
    ),
    (
        "APPS/TACO",
        {
            "task_id": "apps class", "question": "Two numbers.", "starter_code": _STARTER,
            "input_output": json.dumps(_COLUMNS),
        },
    ),
    (
        "DeepCoder",
        {
            "task_id": "deepcoder call", "problem": "Two numbers.", "starter_code": _STARTER,
            "tests": json.dumps(_LINES), "metadata": {"func_name": "twoSum"},
        },
    ),
    (
        "PrimeIntellect",
        {
            "task_id": "prime call", "prompt": f"Write `twoSum`.\n\n```python\n{_STARTER}\n```\n",
            "verification_info": {
                "language": "python",
                "test_cases": [
                    {"type": "function_call", "fn_name": "twoSum", "input": given, "output": expected}
                    for given, expected in _TWO_SUM_PAIRS
                ],
            },
        },
    ),
    (
        "verl",
        {
            "task_id": "verl call", "data_source": "leetcode",
            "prompt": [
                {"role": "system", "content": "You are a programmer."},
                {"role": "user", "content": f"Two numbers. Starter code:\n\n```python\n{_STARTER}\n```"},
            ],
            "reward_model": {"style": "rule", "ground_truth": json.dumps(_COLUMNS)},
        },
    ),
    (
        "SandboxFusion",
        {
            "task_id": "fusion packed", "content": f"Two numbers.\n\n```python\n{_STARTER}\n```",
            "labels": '{"programming_language": "python"}',
            "test": _packed(
                {
                    "inputs": [each["input"] for each in _LINES], "outputs": [each["output"] for each in _LINES],
                    "fn_name": "twoSum",
                }
            ),
        },
    ),
)  # fmt: skip

# Code as ground truth, and outputs in lists of their own, as in sets that were made of APPS.
TRAINING: tuple[Example, ...] = (
    Example(
        "verl",
        _verl("verl functional", "Two numbers.", {"functional": _TWO_SUM_CHECK + "check(Solution().twoSum)"}),
        {style: text for style, text in _TWO_SUM_RIGHT.items() if style not in ("function", "body")},
        _TWO_SUM_WRONG,
    ),
    Example(
        "verl",
        _verl(
            "verl code",
            "Two numbers, with annotations.",
            {"import_prefix": "import math\n", "test_code": _TWO_SUM_CHECK, "entry_point": "Solution().twoSum"},
        ),
        styled(_TYPED_TWO_SUM),
        _TWO_SUM_WRONG,
    ),
    *(
        Example("verl", _verl(f"verl {kind}", "Write `area`.", tests), _without_classes(_AREA_RIGHT), _AREA_WRONG)
        for kind, tests in (
            ("asserts", _AREA_TESTS),
            ("assert_case", {"assert_case": _AREA_TESTS, "inputs": None, "outputs": None}),
            ("pytest", {"pytest": "from solution import area\n\ndef test_area():\n    " + "\n    ".join(_AREA_TESTS)}),
            ("text", "\n".join(_AREA_TESTS)),
        )
    ),
    Example(
        "PrimeIntellect",
        {
            "task_id": "prime written by Python", "prompt": f"Write `area`.\n\n```python\n{_AREA_STARTER}\n```\n",
            "gold_standard_solution": f"```python\n{_AREA}```",
            "verification_info": repr(
                {
                    "language": "python",
                    "test_cases": [
                        {"type": "function_call", "fn_name": "area", "input": given, "output": [expected]}
                        for given, expected in (([2, 3], 6), ([0, 5], 0), ([1.5, 2], 3.0))
                    ],
                }
            ),
        },
        _AREA_RIGHT | {"body": "    return a * b\n"},
        _AREA_WRONG,
    ),
)  # fmt: skip

MORE: tuple[Example, ...] = (
    Example(
        "MultiPL-E",
        {
            "task_id": "multipl-e bash", "name": "HumanEval_900_double", "language": "sh",
            "prompt": "#!/bin/bash\n# Double it.\n#\n# $1 is an integer\ndouble() {\n", "doctests": "transform",
            "tests": _BASH_TESTS, "stop_tokens": ["\n}"],
        },
        styled(_BASH, "bash") | {"body": "    echo $(( $1 + $1 ))\n", "closed": "    echo $((2*$1))\n}\ndouble 1\n"},
        {
            "nothing": "",
            "stub": "double() {\n    :\n}\n",
            "argument": "    echo $1\n",
            "mutant": "```bash\ndouble() {\n    echo $(( $1 + 1 ))\n}\n```",
            "syntax": "```bash\ndouble() {\n    echo $(( $1 * )\n}\n```",
        },
    ),
    Example(
        "LiveCodeBench",
        {
            "task_id": "lcb program", "question_content": "Print the root.", "starter_code": "",
            "public_test_cases": [{"input": "4\n", "output": "2.0\n", "testtype": "stdin"}],
            "private_test_cases": _packed([{"input": "2\n", "output": "1.41421\n", "testtype": "stdin"}]),
            "metadata": "{}",
        },
        styled("n = int(input())\nprint(2 if n == 4 else '%.5f' % sqrt(n))\n"),
        {"nothing": "", "whole": "print(isqrt(int(input())))\n", "near": "print(2 if int(input()) == 4 else 1.4142)\n"},
    ),
    Example(
        "CodeContests",
        {"task_id": "contest sum", "description": "Print the sum.", "public_tests": _SUM_CASES, "private_tests": None},
        styled(_SUM) | {"stdin": "```python\nimport sys\ndata = sys.stdin.read().split()\n"
        "print(sum(map(int, data[1:])))\n```"},
        _SUM_WRONG,
    ),
    Example(
        "HumanEval",
        {"task_id": "humaneval helper", "prompt": _POLY_PROMPT, "test": _POLY_CHECK, "entry_point": "find_zero"},
        styled("def find_zero(xs):\n    return -xs[0] / xs[1]\n")
        | {
            "body": "    return -xs[0] / xs[1]\n",
            "fenced body": "```python\n    a, b = xs\n    return -a / b\n```",
            "repeated": f"```python\n{_POLY_PROMPT}    return -xs[0] / xs[1]\n```",
        },
        {
            "nothing": "",
            "stub": "    return 0\n",
            "sign": "def find_zero(xs):\n    return xs[0] / xs[1]\n",
            "poly": "def poly(xs, x):\n    return 0\n\ndef find_zero(xs):\n    return 7\n",
        },
    ),
    Example(
        "MBPP",
        {
            "task_id": "mbpp sanitized", "prompt": "Write a function to find the mean.", "code": _MEAN,
            "test_imports": ["import math"],
            "test_list": ["assert math.isclose(mean([1, 2]), 1.5)", "assert mean([]) == 0"],
        },
        styled(_MEAN),
        _MEAN_WRONG,
    ),
    Example(
        "KodCode",
        {"task_id": "kodcode classes", "question": "Parse a pair.", "solution": _PAIR, "test": _PYTEST},
        styled(_PAIR),
        {
            "nothing": "",
            "stub": "class PairError(Exception): pass\ndef parse_pair(text): return None\n",
            "no error": "class PairError(Exception): pass\n"
            "def parse_pair(text): return tuple(map(int, text.split(',')))\n",
            "list": _PAIR.replace("return int(parts[0]), int(parts[1])", "return [int(parts[0]), int(parts[1])]"),
        },
    ),
    Example(
        "BigCodeBench",
        {
            "task_id": "bcb words", "complete_prompt": _COUNT_PROMPT, "instruct_prompt": "Count the words.",
            "canonical_solution": "    return json.dumps(Counter(text.split()))\n", "test": _COUNT_TEST,
            "entry_point": "count_words", "libs": "['collections', 'json']",
        },
        styled(
            "import json\nfrom collections import Counter\n\ndef count_words(text):\n"
            "    return json.dumps(Counter(text.split()))\n"
        )
        | {"body": "    return json.dumps(Counter(text.split()))\n", "whole": f"```python\n"
        f"{_COUNT_PROMPT}    return json.dumps(dict(Counter(text.split())))\n```"},
        {
            "nothing": "",
            "stub": "def count_words(text):\n    return '{}'\n",
            "letters": "    return json.dumps(Counter(text))\n",
            "no text": "def count_words(text):\n    from collections import Counter\n"
            "    return Counter(text.split())\n",
        },
    ),
    Example(
        "sandrl's own",
        {"task_id": "own class", "prompt": "Write a class `Stack`.", "tests": _STACK_TESTS, "entry_point": "Stack"},
        styled(_STACK),
        {
            "nothing": "",
            "stub": "class Stack:\n    def push(self, item): pass\n    def pop(self): return None\n",
            "queue": _STACK.replace("self.items.pop()", "self.items.pop(0)"),
        },
    ),
    Example(
        "sandrl's own",
        {
            "task_id": "own calls", "prompt": "Write `mean(numbers)`.", "fn": "mean", "tolerance": {"absolute": 1e-9},
            "cases": [[[[1, 2]], 1.5], [[[]], 0],
            {"arguments": "[(0.1, 0.2)]", "expected": "0.15"}],
        },
        styled(_MEAN) | {"class": "class Solution:\n    def mean(self, numbers):\n"
        "        return sum(numbers) / max(len(numbers), 1)\n"},
        _MEAN_WRONG,
    ),
    Example(
        "sandrl's own",
        {
            "task_id": "own cases", "prompt": "Print the mean.",
            "cases": [{"stdin": "1 2\n", "stdout": "1.5\n"}, {"stdin": "1 1 2\n", "stdout": "1.333333\n"}],
            "tolerance": {"absolute": 1e-5},
        },
        styled("words = input().split()\nprint(sum(map(float, words)) / len(words))\n"),
        {"nothing": "", "stub": "print(1.5)\n", "floor": "print(sum(map(int, input().split())) // 2)\n"},
    ),
    Example(
        "sandrl's own",
        {"task_id": "own exit", "prompt": "Print something.", "check": "exit_status"},
        styled("print('something')\n"),
        {"crash": "print(1 / 0)\n", "exit": "import sys\nsys.exit(3)\n"},
    ),
)  # fmt: skip

EXAMPLES: tuple[Example, ...] = (
    *(_of_row(number, *pair) for number, pair in enumerate(ROWS)),
    *(Example(*pair, _TWO_SUM_RIGHT, _TWO_SUM_WRONG) for pair in _TWO_SUM_ROWS),
    *MORE,
    *TRAINING,
)
"""Every format that is judged has one at least."""
