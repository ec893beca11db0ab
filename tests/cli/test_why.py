"""Why a completion failed, as `sandrl runs show` says it, for every kind of problem, judged in real sandboxes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

PROBLEMS: tuple[dict[str, Any], ...] = (
    {"task_id": "function", "prompt": "Write add(a, b).", "tests": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"]},
    {
        "task_id": "class",
        "prompt": "Write class Stack.",
        "tests": ["s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2\nassert s.items() == [1]"],
    },
    {"task_id": "stdin", "prompt": "Print squares.", "cases": [{"stdin": "3\n", "stdout": "1\n4\n9\n"}]},
    {"task_id": "cpp", "prompt": "Print n+1.", "language": "cpp", "cases": [{"stdin": "3\n", "stdout": "4\n"}]},
    {
        "task_id": "cpp-assert",
        "prompt": "int inc(int).",
        "language": "cpp",
        "tests": ["#include <cassert>\nint main() {\n  assert(inc(1) == 2);\n  assert(inc(5) == 6);\n}"],
    },
)
CODES = {
    "function": "def add(a, b): return a + b if a < 2 else 'x'",
    "class": (
        "class Stack:\n    def __init__(self): self.x = []\n    def push(self, v): self.x.append(v)\n"
        "    def pop(self): return self.x.pop()\n    def items(self): return self.x + [7]"
    ),
    "stdin": "for i in range(int(input())): print((i + 1) ** 2 if i < 2 else 'nine')",
    "cpp": '#include <iostream>\nint main() { int n; std::cin >> n; std::cout << n + 2 << "\\n"; }',
    "cpp-assert": "int inc(int x) { return x < 5 ? x + 1 : x; }",
}


@pytest.fixture
def shown(tmp_path: Path, sandrl: Run, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The run of one wrong completion for each problem: as JSON, and as text by problem."""
    monkeypatch.setenv("SANDRL_RUNS_DIR", str(tmp_path / "runs"))
    _write(tmp_path / "problems.jsonl", PROBLEMS)
    _write(tmp_path / "completions.jsonl", ({"task_id": name, "code": code} for name, code in CODES.items()))
    done = sandrl("reward", "completions.jsonl", "--problems", "problems.jsonl", "--run-name", "why")
    assert done.returncode == 0, done.stderr
    texts = {name: sandrl("runs", "show", "why", "--task", name).stdout for name in CODES}
    return {"document": json.loads(sandrl("runs", "show", "why", "--json").stdout), "texts": texts}


def _write(path: Path, rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


WORDS = {
    "function": ("Write add(a, b).", "assert add(2, 2) == 4", "expected  4", "got       'x'"),
    "class": ("Write class Stack.", "> assert s.items() == [1]", "expected  [1]", "got       [1, 7]"),
    "stdin": ("Print squares.", "stdin:", "- 9", "+ nine"),
    "cpp": ("Print n+1.", "stdin:", "expected  4", "got       5"),
    "cpp-assert": ("int inc(int).", "assert(inc(5) == 6);", "inc(5) == 6' failed"),
}


def test_the_text_has_prompt_check_expected_and_got(shown: dict[str, Any]) -> None:
    for name, words in WORDS.items():
        text = shown["texts"][name]
        assert [word for word in (*words, "(not in the prompt)") if word not in text] == []


def test_the_document_has_the_same(shown: dict[str, Any]) -> None:
    rows = {row["task_id"]: row for row in shown["document"]["trajectories"]}
    problems = shown["document"]["problems"]
    assert {problems[row["problem"]]["task_id"] for row in rows.values()} == set(CODES)
    why = {name: row["why"][0] for name, row in rows.items()}
    assert {name: (each["got"], each["expected"], each["line"]) for name, each in why.items()} == {
        "function": ("'x'", "4", 1),
        "class": ("[1, 7]", "[1]", 5),
        "stdin": ("1\n4\nnine\n", "1\n4\n9\n", 3),
        "cpp": ("5\n", "4\n", 1),
        "cpp-assert": (None, None, None),
    }
    assert why["stdin"]["stdin"] == "3\n"
    assert all(each["is_hidden"] for each in why.values())
