"""`sandrl runs regrade` on real runs and the real local runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RIGHT, WRONG, Run

NO_CODE = '{"task_id": "inc", "completion": "I do not know."}\n'
STRICTER = '{"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2", "assert f(0.5) == 2"]}\n'


@pytest.fixture
def run(sandrl: Run, problems: Path, tmp_path: Path) -> Path:
    done = sandrl("reward", "-", "--problems", problems, "--runs-dir", "r", stdin=RIGHT + WRONG + NO_CODE)
    assert done.returncode == 0, done.stderr
    return Path(done.stderr.splitlines()[-1].removeprefix("Run: "))


def test_with_the_same_judge_and_problems_nothing_flips(sandrl: Run, run: Path) -> None:
    before = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    done = sandrl("runs", "regrade", run, "--fail-on-flips")
    assert (done.returncode, done.stdout) == (0, "Flipped: 0 of 3 verdicts\n"), done.stderr
    assert {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()} == before


def test_verdicts_that_flipped_are_listed_and_no_others(sandrl: Run, run: Path, problems: Path) -> None:
    problems.write_text(STRICTER, encoding="utf-8")
    done = sandrl("runs", "regrade", run)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("  0 (inc): passed → failed, reward 1 → 0: check 2 of 2")
    assert last == "Flipped: 1 of 3 verdicts"
    gated = sandrl("runs", "regrade", run, "--fail-on-flips", "--json")
    assert gated.returncode == 1
    document = json.loads(gated.stdout)
    assert [(flip["task_id"], flip["before"]["status"], flip["after"]["status"]) for flip in document["flips"]] == [
        ("inc", "passed", "failed")
    ]


def test_problems_that_are_gone_can_be_named(sandrl: Run, run: Path, problems: Path, tmp_path: Path) -> None:
    problems.rename(tmp_path / "moved.jsonl")
    done = sandrl("runs", "regrade", run)
    assert (done.returncode, done.stdout) == (2, "")
    assert "its problems cannot be loaded" in done.stderr
    assert "hint: name them with --problems" in done.stderr
    assert sandrl("runs", "regrade", run, "--problems", "moved.jsonl").stdout == "Flipped: 0 of 3 verdicts\n"


def test_completions_of_other_problems_are_left_out_and_said(sandrl: Run, run: Path, tmp_path: Path) -> None:
    done = sandrl("runs", "regrade", run, "--problems", "toy")
    assert done.returncode == 2
    assert "has no completion that can be judged again" in done.stderr
