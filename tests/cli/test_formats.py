"""Rows of every format through the commands that take problems: right answers pass in every style, wrong ones fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandrl.problems import load_problems
from tests.cli.conftest import Run
from tests.support.chat_server import ChatServer
from tests.support.format_examples import EXAMPLES

# By the task and the answer, what it must earn.
DESERVED = {
    (str(example.row["task_id"]), text): reward
    for example in EXAMPLES
    for answers, reward in ((example.right, 1.0), (example.wrong, 0.0))
    for text in answers.values()
}


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    path = tmp_path / "problems.jsonl"
    path.write_text("".join(json.dumps(example.row) + "\n" for example in EXAMPLES), encoding="utf-8")
    return path


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_reward_gives_every_answer_to_every_format_what_it_deserves(
    sandrl: Run, tmp_path: Path, problems: Path
) -> None:
    rows = [{"task_id": task_id, "completion": text} for task_id, text in DESERVED]
    done = sandrl("reward", written(tmp_path / "c.jsonl", rows), "--problems", problems, "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    wrongly = [
        (row, result["reward"], result["status"], result["detail"])
        for row, result in zip(rows, results, strict=True)
        if result["reward"] != DESERVED[row["task_id"], row["completion"]]
    ]
    assert wrongly == []


def test_references_of_every_format_pass_and_no_stub_does(sandrl: Run, problems: Path) -> None:
    done = sandrl("problems", "validate", "--problems", problems, "--json")
    summary = json.loads(done.stdout)["summary"]
    assert (done.returncode, summary["failed"], summary["unscorable"]) == (0, [], 0), done.stderr
    # A checker must accept the outputs that are expected, also where there is no reference.
    known = {name for name, each in load_problems(problems).problems.items() if each.reference or each.checker}
    assert summary["passed"] == len(known) > 10
    # What only echoes is right where the task is to echo; a program that only has to end does nothing.
    weak = {task_id for task_id, problem in load_problems(problems).problems.items() if problem.kind == "exit_status"}
    echoes = {task_id for task_id, problem in load_problems(problems).problems.items() if "Echo" in problem.prompt}
    assert summary["accepted_stubs"].keys() <= weak | echoes


CONTEST: dict[str, Any] = {
    "name": "1_A. Double",
    "description": "Print twice the number.",
    "public_tests": {"input": ["2\n"], "output": ["4\n"]},
    "private_tests": {"input": ["5\n"], "output": ["10\n"]},
    "solutions": {
        "language": [3, 2],
        "solution": ["print(0)", "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << 2 * n; }\n"],
    },
}
FROM_FILES: dict[str, Any] = {**CONTEST, "name": "2_B. Double", "input_file": "double.in", "output_file": "double.out"}
DOUBLE_FILES = (
    '```cpp\n#include <fstream>\nint main() { std::ifstream in("double.in"); std::ofstream out("double.out");'
    " int n; in >> n; out << n + n; }\n```"
)


def test_programs_of_a_set_may_be_asked_for_in_another_language(sandrl: Run, tmp_path: Path) -> None:
    problems = written(tmp_path / "contest.jsonl", [CONTEST, FROM_FILES])
    answers = [
        (CONTEST["name"], f"In C++:\n```cpp\n{CONTEST['solutions']['solution'][1]}```", 1.0),
        (CONTEST["name"], "```cpp\n#include <iostream>\nint main() { std::cout << 4; }\n```", 0.0),
        (CONTEST["name"], "```python\nprint(2 * int(input()))\n```", 0.0),
        (FROM_FILES["name"], DOUBLE_FILES, 1.0),
        (FROM_FILES["name"], DOUBLE_FILES.replace("n + n", "n"), 0.0),
    ]
    rows = [{"task_id": name, "completion": text} for name, text, _ in answers]
    words = ("--problems", problems, "--language", "cpp")
    done = sandrl("reward", written(tmp_path / "answers.jsonl", rows), *words, "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [result["reward"] for result in results] == [reward for *_, reward in answers], results
    # Validation runs the solutions in that language.
    validated = json.loads(sandrl("problems", "validate", *words, "--json").stdout)["summary"]
    assert (validated["n"], validated["passed"]) == (2, 2)


def test_a_set_with_other_checks_is_refused_in_another_language_and_converted_without_them(
    sandrl: Run, tmp_path: Path
) -> None:
    calls = {"problem_id": 7, "question": "Double.", "input_output": {"fn_name": "f", "inputs": [[1]], "outputs": [2]}}
    problems = written(tmp_path / "mixed.jsonl", [CONTEST, calls])
    for command in (("ls", problems), ("show", "7", "--problems", problems)):
        done = sandrl("problems", *command, "--language", "rust")
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{problems}:2: its checks (calls) are Python code, and --language is rust" in done.stderr
    own = tmp_path / "own.jsonl"
    done = sandrl("problems", "convert", problems, own, "--language", "rust", "--skip-bad-rows")
    assert (done.returncode, "1 rows skipped" in done.stderr) == (0, True), done.stderr
    assert [problem.language for problem in load_problems(own).problems.values()] == ["rust"]
    unknown = sandrl("problems", "ls", problems, "--language", "cobol")
    assert unknown.returncode == 2
    assert "--language is 'cobol', which is not a supported language" in unknown.stderr


def test_a_model_is_asked_for_the_language(sandrl: Run, tmp_path: Path) -> None:
    problems = written(tmp_path / "contest.jsonl", [CONTEST])
    asked: list[str] = []

    def answer(body: dict[str, Any]) -> str:
        asked.append(str(body["messages"][0]["content"]))
        return str(CONTEST["solutions"]["solution"][1])

    with ChatServer(answer) as server:
        words = ("--problems", problems, "--language", "c++", "--json")
        done = sandrl("eval", "--base-url", server.base_url, *words)
    assert done.returncode == 0, done.stderr
    assert [result["reward"] for result in json.loads(done.stdout)["results"]] == [1.0] * 4
    assert set(asked) == {"Solve the task in C++. Reply with the code only, between <answer> and </answer>."}
