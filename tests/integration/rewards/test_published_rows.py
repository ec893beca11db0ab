"""Rows in the columns of LeetCodeDataset: helpers of the prompt, methods of `Solution`; references pass, isolated."""

from __future__ import annotations

from typing import Any

import sandrl
from sandrl.events.results import Trust
from sandrl.sandboxes import Job
from tests.support.published_rows import leet_code_row


def solution(name: str, parameters: str, body: str, result: str) -> tuple[str, str]:
    """Starter code, and code, of a method of `Solution`."""
    header = f"class Solution:\n    def {name}(self, {parameters}) -> {result}:\n"
    return header + "        ", header + "".join(f"        {line}\n" for line in body.split("\n"))


def row(
    name: str, parameters: str, result: str, body: str, calls: list[tuple[str, str]], compared: str = "{} == {}"
) -> dict[str, Any]:
    starter, code = solution(name, parameters, body, result)
    asserts = [compared.format(f"candidate({given})", expected) for given, expected in calls]
    test = "def check(candidate):\n" + "".join(f"    assert {each}\n" for each in asserts)
    return leet_code_row(f"{name}-row", f"Write {name}.", starter, code, f"Solution().{name}", test)


ROWS = [
    row(
        "twoSum",
        "nums: List[int], target: int",
        "List[int]",
        "seen = {}\nfor i, n in enumerate(nums):\n    if target - n in seen:\n        return [seen[target - n], i]\n"
        "    seen[n] = i",
        [("nums = [3,2,4],target = 6", "[1, 2]"), ("nums = [3,3],target = 6", "[0, 1]")],
    ),
    row(
        "reverseList",
        "head: Optional[ListNode]",
        "Optional[ListNode]",
        "before = None\nwhile head:\n    head.next, before, head = before, head, head.next\nreturn before",
        [("head = list_node([1,2,3])", "list_node([3,2,1])"), ("head = list_node([])", "list_node([])")],
        "is_same_list({}, {})",
    ),
    row(
        "invertTree",
        "root: Optional[TreeNode]",
        "Optional[TreeNode]",
        "if root is None:\n    return None\n"
        "return TreeNode(root.val, self.invertTree(root.right), self.invertTree(root.left))",
        [
            ("root = tree_node([4,2,7,1,3])", "tree_node([4,7,2,None,None,3,1])"),
            ("root = tree_node([2,1])", "tree_node([2,None,1])"),
        ],
        "is_same_tree({}, {})",
    ),
    row(
        "maxDepth",
        "root: Optional[TreeNode]",
        "int",
        "return 0 if root is None else 1 + max(self.maxDepth(root.left), self.maxDepth(root.right))",
        [("root = tree_node([3,9,20,None,None,15,7])", "3"), ("root = tree_node([])", "0")],
    ),
    row(
        "topKFrequent",
        "words: List[str], k: int",
        "List[str]",
        "counts = Counter(words)\nreturn nsmallest(k, counts, key=lambda word: (-counts[word], word))",
        [('words = ["i","love","i"],k = 1', '["i"]'), ('words = ["b","a"],k = 2', '["a", "b"]')],
    ),
    row("myPow", "x: float, n: int", "float", "return x ** n", [("x = 2.5,n = 2", "6.25"), ("x = 2.0,n = -1", "0.5")]),
    row(
        "smallest",
        "nums: List[int]",
        "float",
        "best = inf\nfor n in nums:\n    best = min(best, n)\nreturn best",
        [("nums = [3,1]", "1"), ("nums = []", "inf")],
    ),
]


def test_references_of_leet_code_rows_pass_and_wrong_answers_do_not_isolated(job: Job) -> None:
    completions = []
    for each in ROWS:
        name, result = each["task_id"].removesuffix("-row"), each["entry_point"]
        # Helpers of the answer's own do not count: those of the prompt compare.
        cheat = "def is_same_list(p, q):\n    return True\n\nis_same_tree = is_same_list\n\n"
        wrong = f"{cheat}class Solution:\n    def {name}(self, *given, **named):\n        return list_node([7])\n"
        fenced = f"We write {result}.\n\n```python\n{each['completion']}```\n"
        completions += [
            {"task_id": each["task_id"], "id": f"{name} code 1.0", "code": each["completion"]},
            {"task_id": each["task_id"], "id": f"{name} fence 1.0", "completion": fenced},
            {"task_id": each["task_id"], "id": f"{name} wrong 0.0", "code": wrong},
        ]
    results = sandrl.score(completions, ROWS, job=job).results
    assert [(each.id, each.detail) for each in results if not each.id.endswith(f" {each.reward}")] == []
    assert {each.trust for each in results} == {Trust.ISOLATED}


def test_a_class_of_the_answer_may_replace_that_of_the_prompt(job: Job) -> None:
    node = "class ListNode:\n    def __init__(self, val=0, next=None):\n        self.val, self.next = val, next\n\n"
    body = "out = None\nwhile head:\n    out, head = ListNode(head.val, out), head.next\nreturn out"
    code = node + solution("reverseList", "head", body, "ListNode")[1]
    [result] = sandrl.score([{"task_id": "reverseList-row", "code": code}], ROWS, job=job).results
    assert (result.reward, result.trust) == (1.0, Trust.ISOLATED), result.detail


SEEKS = [
    "import sys\nlines = sum(1 for _ in sys.stdin)\nsys.stdin.seek(0)\nprint(lines, sys.stdin.read().split()[-1])\n",
    "import sys\nlines = len(sys.stdin.buffer.readlines())\nend = sys.stdin.buffer.tell()\n"
    "sys.stdin.buffer.seek(end - 2)\nprint(lines, sys.stdin.buffer.read().decode().strip())\n",
    "import sys\nassert sys.stdin.seekable() and sys.stdin.name == '<stdin>' and sys.__stdin__ is sys.stdin\n"
    "input()\nprint(3, [*sys.stdin][-1].strip())\n",
]


def test_standard_input_of_a_case_can_seek(job: Job) -> None:
    problem = {"task_id": "seek", "prompt": "?", "cases": [{"stdin": "a\nb\nc\n", "stdout": "3 c\n"}] * 2}
    results = sandrl.score([{"task_id": "seek", "code": code} for code in SEEKS], [problem], job=job).results
    assert [(each.reward, each.detail) for each in results] == [(1.0, "")] * 3
