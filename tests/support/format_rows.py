"""A row of each format: programs that print what they read, or a function `double`."""

from __future__ import annotations

import json
from typing import Any

_CASES = [{"input": "1\n", "output": "1\n"}, {"input": "2\n", "output": "2\n"}]
_COLUMNS = {"inputs": ["1\n", "2\n"], "outputs": ["1\n", "2\n"]}
_CALLS = {"inputs": [[1], [2]], "outputs": [2, 4], "fn_name": "double"}
_ASSERTS = ["assert double(1) == 2", "assert double(2) == 4"]
_DEFINITION = 'import math\n\ndef double(n):\n    """Double it."""\n'
_BODY = "    return 2 * n\n"
_CHECK = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(2) == 4\n"
_UNITTEST = (
    "import unittest\nclass TestCases(unittest.TestCase):\n    def test_one(self):\n"
    "        self.assertEqual(double(1), math.floor(2.5))\n"
    "    def test_two(self):\n        self.assertEqual(double(2), 4)\n"
)
_ECHO = "print(input())"
_CHECKER = (
    "import sys\n"
    "given, correct, answer = (open(path).read().split() for path in sys.argv[1:])\n"
    "print(1 if answer == correct else 0)\n"
)
_DOUBLE = "def double(n):\n    return 2 * n\n"

ROWS: list[tuple[str, dict[str, Any]]] = [
    ("sandrl's own", {"task_id": "row-1", "prompt": "Double.", "tests": _ASSERTS, "reference": _DOUBLE}),
    (
        "MBPP",
        {
            "task_id": 1, "code": _DOUBLE, "prompt": "Double.", "source_file": "Benchmark Questions.ipynb",
            "test_imports": ["import math"], "test_list": _ASSERTS[:1],
            "test": "def assertion(out, exp, atol):\n    assert out == exp or math.isclose(out, exp, abs_tol=atol)\n\n"
            "inputs = [[1], [2]]\nresults = [2, 4]\nfor i, (inp, exp) in enumerate(zip(inputs, results)):\n"
            "    assertion(double(*inp), exp, 0)\n",
        },
    ),
    ("MBPP", {"task_id": 1, "text": "Double.", "code": _DOUBLE, "test_list": _ASSERTS, "challenge_test_list": []}),
    (
        "HumanEval",
        {
            "task_id": "row-1", "prompt": _DEFINITION, "canonical_solution": _BODY, "test": _CHECK,
            "entry_point": "double",
        },
    ),
    (
        "HumanEval",
        {
            "task_id": "row-1", "prompt": "import math\n\ndef same(a, b):\n    return math.isclose(a, b)\n",
            "test": "def check(candidate):\n    assert same(candidate(1), 2)\n    assert same(candidate(n=2), 4)\n",
            "entry_point": "double",
        },
    ),
    (
        "LeetCodeDataset",
        {
            "task_id": "row-1", "question_id": 1, "difficulty": "Easy", "tags": ["Math"],
            "problem_description": "Double.", "starter_code": "def double(n: int) -> int:\n    ",
            "estimated_date": "2015-08-07",
            "prompt": "from typing import *\n\ndef same(a, b):\n    return a == b\n", "completion": _DOUBLE,
            "entry_point": "double",
            "test": "def check(candidate):\n    assert same(candidate(n = 1), 2)\n"
            "    assert same(candidate(n = 2), 4)\n",
            "input_output": [{"input": "n = 1", "output": "2"}], "query": "Double.", "response": "",
        },
    ),
    (
        "HumanEvalPack",
        {
            "task_id": "Python/1", "prompt": _DEFINITION, "declaration": "import math\n\ndef double(n):\n",
            "canonical_solution": _BODY, "buggy_solution": "    return n\n", "bug_type": "missing logic",
            "failure_symptoms": "incorrect output", "entry_point": "double", "import": "", "test_setup": "",
            "test": f"\n\n{_CHECK}\ncheck(double)", "example_test": f"{_CHECK}\ncheck(double)\n",
            "signature": "double(n)", "docstring": "Double it.", "instruction": "Double it.",
        },
    ),
    ("AceCode", {"id": "row-1", "source": "oss", "question": "Double.", "test_cases": _ASSERTS, "inferences": []}),
    ("AceCode", {"id": "row-1", "question": "Double.", "tests": json.dumps(_ASSERTS)}),
    (
        "RLVR",
        {
            "id": "row-1", "messages": [{"role": "user", "content": "Double."}], "dataset": "code",
            "ground_truth": json.dumps(_ASSERTS),
        },
    ),
    (
        "NeMo-Gym",
        {
            "id": "row-1", "responses_create_params": {"input": [{"role": "user", "content": "Echo."}]},
            "verifier_metadata": {"unit_tests": _COLUMNS, "problem_id": "1"},
        },
    ),
    (
        "BigCodeBench",
        {
            "task_id": "row-1", "complete_prompt": _DEFINITION, "instruct_prompt": "Double.",
            "canonical_solution": _BODY, "code_prompt": "def double(n):\n", "test": _UNITTEST,
            "entry_point": "double", "doc_struct": "{}", "libs": "['math']",
        },
    ),
    (
        "EvalPlus",
        {
            "task_id": "row-1", "prompt": _DEFINITION, "contract": "    assert True", "canonical_solution": _BODY,
            "entry_point": "double", "base_input": [[1]], "plus_input": [[2]], "atol": 0,
        },
    ),
    (
        "KodCode",
        {
            "version": "1", "style": "instruct", "question_id": "row-1", "question": "Double.", "solution": _DOUBLE,
            "test": "from solution import double\n\ndef test_one():\n    assert double(1) == 2\n\n"
            "def test_two():\n    assert double(2) == 4\n",
            "test_info": [{"function_name": "double", "parameter_list": "(n)"}],
        },
    ),
    (
        "CodeContests",
        {
            "name": "row-1", "description": "Echo.", "public_tests": {"input": ["1\n"], "output": ["1\n"]},
            "private_tests": {"input": [], "output": []}, "generated_tests": {"input": ["2\n"], "output": ["2\n"]},
            "time_limit": {"seconds": 1}, "input_file": "", "output_file": "",
            "solutions": {"language": [2, 3], "solution": ["int main() {}", _ECHO]},
        },
    ),
    (
        "open-r1/codeforces",
        {
            "id": "row-1", "aliases": None, "contest_id": "1", "contest_name": "Round 1", "contest_type": "CF",
            "contest_start": 1266588000, "contest_start_year": 2010, "index": "A", "time_limit": 1.0,
            "memory_limit": 256.0, "title": "Echo", "description": "Echo.", "input_format": "A line.",
            "output_format": "The same.", "interaction_format": None, "note": None, "examples": _CASES[:1],
            "editorial": None, "rating": 800, "tags": ["strings"], "testset_size": 2, "official_tests": _CASES,
            "official_tests_complete": True, "input_mode": "stdio", "generated_checker": _CHECKER, "executable": True,
            "generated_tests": 0,
        },
    ),
    (
        "APPS/TACO",
        {
            "problem_id": 1, "question": "Echo.", "solutions": json.dumps([_ECHO]), "starter_code": "",
            "input_output": json.dumps(_COLUMNS), "difficulty": "interview", "url": "",
        },
    ),
    (
        "APPS/TACO",
        {
            "question": "Double.", "solutions": [_DOUBLE], "starter_code": "def double(n):\n\t",
            "input_output": json.dumps(_CALLS), "name": None, "tags": "[]", "time_limit": "2.0 seconds",
        },
    ),
    (
        "LiveCodeBench",
        {
            "question_title": "Echo", "question_content": "Echo.", "platform": "atcoder", "question_id": "row-1",
            "contest_id": "c", "contest_date": "2024-01-01T00:00:00", "starter_code": "", "difficulty": "easy",
            "public_test_cases": json.dumps([{**_CASES[0], "testtype": "stdin"}]),
            "private_test_cases": json.dumps([{**_CASES[1], "testtype": "stdin"}]), "metadata": "{}",
        },
    ),
    (
        "DeepCoder",
        {
            "problem": "Echo.", "solutions": [f"```python\n{_ECHO}\n```"], "metadata": {},
            "tests": json.dumps([{**each, "type": "stdin_stdout"} for each in _CASES]), "starter_code": "",
        },
    ),
    ("DeepCoder", {"problem": "Double.", "solutions": [_DOUBLE], "tests": json.dumps(_CALLS)}),
    (
        "PrimeIntellect",
        {
            "source": "apps", "task_type": "verifiable_code", "prompt": "Echo.", "problem_id": "row-1",
            "gold_standard_solution": f"```python\n{_ECHO}\n```",
            "verification_info": json.dumps(
                {"language": "python", "test_cases": [{**each, "type": "stdin_stdout"} for each in _CASES]}
            ),
        },
    ),
    (
        "verl",
        {
            "data_source": "taco", "ability": "code", "prompt": [{"role": "user", "content": "Echo."}],
            "reward_model": {"style": "rule", "ground_truth": json.dumps(_COLUMNS)}, "extra_info": {"index": 0},
        },
    ),
    (
        "SandboxFusion",
        {
            "id": 1, "content": "Echo.", "labels": '{"difficulty": "A"}',
            "test": json.dumps(
                [{"input": {"stdin": each["input"]}, "output": {"stdout": each["output"]}} for each in _CASES]
            ),
        },
    ),
    (
        "SandboxFusion",
        {
            "id": "row-1", "content": _DEFINITION, "canonical_solution": _BODY, "test": _UNITTEST,
            "labels": '{"entry_point": "double"}',
        },
    ),
]  # fmt: skip
