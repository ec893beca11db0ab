"""`sandrl reward` scores the files of completions that other tools write, as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sandrl as library
from sandrl.problems import load_completions
from tests.cli.conftest import Run
from tests.support.completion_shapes import PROBLEM, SHAPES, TASK, write, write_directory


def test_the_right_and_the_wrong_answer_of_every_shape_get_their_rewards(tmp_path: Path) -> None:
    completions, shapes = [], []
    for number, shape in enumerate([*SHAPES, "EvalPlus directory"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder, shape) if shape in SHAPES else write_directory(folder)
        for each in load_completions(path, task_ids=[TASK]).completions:
            completions.append(each)
            shapes.append(shape)
    report = library.score(completions, [PROBLEM])
    assert [(shape, result.reward) for shape, result in zip(shapes, report.results, strict=True)] == [
        (shape, reward) for shape in [*SHAPES, "EvalPlus directory"] for reward in (1.0, 0.0)
    ]


@pytest.mark.parametrize("shape", ["bigcode", "inspect log", "csv"])
def test_samples_are_named_by_problem_and_number_with_pass_at_1(sandrl: Run, tmp_path: Path, shape: str) -> None:
    problems = tmp_path / "problems.jsonl"
    problems.write_text(json.dumps(PROBLEM), encoding="utf-8")
    done = sandrl("reward", str(write(tmp_path, shape)), "--problems", str(problems))
    assert done.returncode == 0, done.stderr
    assert f"  {TASK}#1: reward=1.0 [PASS] OK" in done.stdout
    assert f"  {TASK}#2: reward=0.0 [FAIL] check 1 of 2: " in done.stdout
    assert done.stdout.splitlines()[-1] == "pass@1: 50.0% [5.5%, 94.5%]"


def test_a_run_is_a_source_of_completions(sandrl: Run, tmp_path: Path) -> None:
    problems = tmp_path / "problems.jsonl"
    problems.write_text(json.dumps(PROBLEM), encoding="utf-8")
    runs = ("--problems", str(problems), "--runs-dir", str(tmp_path / "runs"))
    assert sandrl("reward", str(write(tmp_path, "messages")), *runs, "--run-name", "first").returncode == 0
    run = tmp_path / "runs" / "first"
    for source in (run, run / "trajectories.jsonl"):
        done = sandrl("reward", str(source), *runs, "--json")
        assert done.returncode == 0, done.stderr
        assert {(each["id"], each["reward"]) for each in json.loads(done.stdout)["results"]} == {
            (f"{TASK}#1", 1.0),
            (f"{TASK}#2", 0.0),
        }


def test_fields_are_mapped_by_an_option_that_the_error_names(sandrl: Run, tmp_path: Path) -> None:
    problems, answers = tmp_path / "problems.jsonl", tmp_path / "answers.jsonl"
    problems.write_text(json.dumps(PROBLEM), encoding="utf-8")
    answers.write_text(json.dumps({"meta": {"task": TASK}, "reply": "def add(a, b): return a + b"}), encoding="utf-8")
    words = ("reward", str(answers), "--problems", str(problems))
    done = sandrl(*words)
    assert (done.returncode, done.stdout) == (2, "")
    [error, hint] = done.stderr.splitlines()
    assert error.startswith(
        f"sandrl: error: {answers}:1: field 'task_id': no known format of completions has the fields"
    )
    assert "--map-completions, for example task_id=meta.task,completion=reply" in hint
    done = sandrl(*words, "--map-completions", "task_id=meta.task,completion=reply")
    assert f"  {TASK}: reward=1.0 [PASS] OK" in done.stdout
