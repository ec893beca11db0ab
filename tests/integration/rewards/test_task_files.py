"""A problem that is written as a task is judged there as it is here: right answers earn 1, wrong ones 0."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.errors import InputError
from sandrl.judge.guest.baseline import SANDBOX_VARIABLE
from sandrl.judge.limits import Limits
from sandrl.judge.task_files import ANSWER, task_files
from sandrl.problems import Case, Problem, load_problems
from tests.support.format_examples import EXAMPLES, Example

CONVERTIBLE = [each for each in EXAMPLES if each.problem.is_python and not each.problem.asks_reference]


def judged(problem: Problem, code: str | None, place: Path) -> tuple[str, str]:
    """The reward and the output of the verifier of a problem, in a directory instead of a machine."""
    answer, tests, logs = place / "solution.py", place / "tests", place / "logs"
    for name, content in task_files(problem, Limits()).items():
        if name.startswith("tests/"):
            tests.mkdir(parents=True, exist_ok=True)
            # The guest removes files of a sandbox between runs, which this is none.
            moved = content.replace(f"{SANDBOX_VARIABLE}=1".encode(), b"A=1")
            moved = moved.replace(b"/logs/verifier", str(logs).encode())
            moved = moved.replace(ANSWER.encode(), str(answer).encode())
            (place / name).write_bytes(moved)
    if code is not None:
        answer.write_text(code, encoding="utf-8")
    assert f"{SANDBOX_VARIABLE}=1" not in (tests / "problem.json").read_text(encoding="utf-8")
    command = [sys.executable, str(tests / "judge.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=100, check=False)
    reward = logs / "reward.txt"
    said = done.stdout + done.stderr
    return (reward.read_text().strip() if reward.exists() else "none"), said


def check(example: Example, place: Path) -> None:
    for name, answers, reward in (("right", example.right, "1"), ("wrong", example.wrong, "0")):
        code = next(iter(answers.values()))
        given, said = judged(example.problem, code, place / name)
        assert given == reward, said


@pytest.mark.parametrize("example", CONVERTIBLE[::9], ids=lambda example: str(example.row["task_id"]))
def test_a_right_answer_earns_1_and_a_wrong_one_0(example: Example, tmp_path: Path) -> None:
    check(example, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("example", CONVERTIBLE, ids=lambda example: str(example.row["task_id"]))
def test_every_format_is_judged_alike(example: Example, tmp_path: Path) -> None:
    check(example, tmp_path)


def test_the_checks_are_gone_before_the_answer_runs_and_each_has_a_result(tmp_path: Path) -> None:
    problem = Problem("p", "Echo.", cases=(Case("1\n", "1\n"), Case("2\n", "2\n")))
    code = f"import os\nprint('seen' if os.path.exists({str(tmp_path / 'tests/problem.json')!r}) else input())\n"
    assert judged(problem, code, tmp_path)[0] == "1"
    assert list((tmp_path / "tests").iterdir()) == []
    found = json.loads((tmp_path / "logs/ctrf.json").read_text())["results"]["tests"]
    assert [each["status"] for each in found] == ["passed", "passed"]


def test_what_an_answer_writes_is_no_reward(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    code = f"import pathlib\ntry: pathlib.Path({str(logs)!r}, 'reward.json').write_text('1')\nexcept OSError: pass\n"
    assert judged(Problem("p", "Echo.", cases=(Case("1\n", "1\n"),)), code, tmp_path)[0] == "0"
    assert not (logs / "reward.json").exists()


def test_no_answer_earns_nothing(tmp_path: Path) -> None:
    assert judged(Problem("p", "?", check="exit_status"), None, tmp_path)[0] == "0"


def test_a_problem_whose_own_code_fails_has_no_reward(tmp_path: Path) -> None:
    problem = Problem(
        "p", "?", tests=("assert f() == missing",), setup="missing = 1 / 0", reference="def f(): return 1"
    )
    reward, said = judged(problem, "def f(): return 1", tmp_path)
    assert reward == "none"
    assert "no verdict: " in said


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"cases": (Case("1", "1"),), "language": "cpp"},
            "is in cpp, and the verifier of a task is written for answers",
        ),
        ({"check": "exit_status", "image": "host:3.11"}, "has an image that names something of this machine"),
    ],
)
def test_what_no_task_can_judge_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        task_files(Problem("p", "?", **changes), Limits())  # type: ignore[arg-type]


def test_calls_that_are_compared_with_the_reference_are_refused() -> None:
    asking = next(each.problem for each in EXAMPLES if each.problem.asks_reference)
    with pytest.raises(InputError, match="has calls without an expected value"):
        task_files(asking, Limits())


def test_all_bundled_problems_can_be_written() -> None:
    for problem in load_problems("bundled").problems.values():
        assert task_files(problem, Limits())["instruction.md"]
