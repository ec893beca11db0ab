"""Rows in the columns of published sets, made of other problems: MBPP+, HumanEval+ and LeetCodeDataset of the hub."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

_ASSERTION = """import numpy as np
from math import inf

def is_floats(x) -> bool:
    # check if it is float; List[float]; Tuple[float]
    if isinstance(x, float):
        return True
    if isinstance(x, (list, tuple)):
        return all(isinstance(i, float) for i in x)
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64 or x.dtype == np.float32
    return False


def assertion(out, exp, atol):
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if out != exp and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert out == exp, f"out: {out}, exp: {exp}"


"""
"""How tests of the published rows compare."""

LEET_CODE_PROMPT = """import random
import functools
import collections
import string
import math
import datetime

from typing import *
from functools import *
from collections import *
from itertools import *
from heapq import *
from bisect import *
from string import *
from operator import *
from math import *

inf = float('inf')

class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next

def list_node(values: list):
    if not values:
        return None
    head = ListNode(values[0])
    p = head
    for val in values[1:]:
        node = ListNode(val)
        p.next = node
        p = node
    return head

def is_same_list(p1, p2):
    if p1 is None and p2 is None:
        return True
    if not p1 or not p2:
        return False
    return p1.val == p2.val and is_same_list(p1.next, p2.next)

class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right

def tree_node(values: list):
    if not values:
        return None
    root = TreeNode(values[0])
    i = 1
    queue = deque()
    queue.append(root)
    while queue:
        node = queue.popleft()
        if i < len(values) and values[i] is not None:
            node.left = TreeNode(values[i])
            queue.append(node.left)
        i += 1
        if i < len(values) and values[i] is not None:
            node.right = TreeNode(values[i])
            queue.append(node.right)
        i += 1
    return root

def is_same_tree(p, q):
    if not p and not q:
        return True
    elif not p or not q:
        return False
    elif p.val != q.val:
        return False
    else:
        return is_same_tree(p.left, q.left) and is_same_tree(p.right, q.right)
"""
"""What begins each program of LeetCodeDataset: imports and helpers in the style of the set."""


def calls_of(row: Mapping[str, Any]) -> tuple[str, list[tuple[list[Any], Any]]] | None:
    """The function that the asserts of a row of MBPP call, with values; None if some are no literals."""
    pairs = []
    for test in [*row["test_list"], *row["challenge_test_list"]]:
        match ast.parse(test).body:
            case [ast.Assert(test=ast.Compare(ast.Call(ast.Name(name), given, []), [ast.Eq()], [expected]))]:
                try:
                    pairs.append(([ast.literal_eval(each) for each in given], ast.literal_eval(expected)))
                except ValueError:
                    return None
            case _:
                return None
    return name, pairs


def mbpp_plus_row(row: Mapping[str, Any], name: str, pairs: Sequence[tuple[list[Any], Any]]) -> dict[str, Any]:
    """A row of MBPP in the columns of MBPP+ of the hub."""
    return {
        "task_id": row["task_id"],
        "code": row["code"],
        "prompt": row["text"],
        "source_file": "Benchmark Questions Verification V2.ipynb",
        "test_imports": [],
        "test_list": row["test_list"],
        "test": f"{_ASSERTION}inputs = {[given for given, _ in pairs]!r}\nresults = {[each for _, each in pairs]!r}\n"
        "for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        f"    assertion({name}(*inp), exp, 0)\n",
    }


def human_eval_plus_row(
    task_id: str, prompt: str, solution: str, entry_point: str, pairs: Sequence[tuple[Sequence[Any], Any]]
) -> dict[str, Any]:
    """A row in the columns of HumanEval+ of the hub."""
    inputs, results = [list(given) for given, _ in pairs], [expected for _, expected in pairs]
    return {
        "task_id": task_id,
        "prompt": prompt,
        "canonical_solution": solution,
        "entry_point": entry_point,
        "test": f"\n\n{_ASSERTION}def check(candidate):\n    inputs = {inputs!r}\n    results = {results!r}\n"
        "    for i, (inp, exp) in enumerate(zip(inputs, results)):\n"
        "        assertion(candidate(*inp), exp, 0)\n",
    }


def leet_code_row(
    task_id: str, description: str, starter_code: str, completion: str, entry_point: str, test: str
) -> dict[str, Any]:
    """A row in the columns of LeetCodeDataset."""
    return {
        "task_id": task_id,
        "question_id": 1,
        "difficulty": "Easy",
        "tags": ["Array"],
        "problem_description": description,
        "starter_code": starter_code,
        "estimated_date": "2015-08-07",
        "prompt": LEET_CODE_PROMPT,
        "completion": completion,
        "entry_point": entry_point,
        "test": test,
        "input_output": [{"input": "as in test", "output": "as in test"}],
        "query": f"Answer the question with one function.\n\n{description}\n\n```python\n{starter_code}\n```",
        "response": "",
    }
