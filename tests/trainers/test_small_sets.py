"""Sets with fewer problems than a step takes: the default batch fits, a larger one is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandrl.errors import TrainingError
from sandrl.problems.loading import load_problems
from sandrl.runs import RunOutcome, RunReader
from sandrl.trainers import arguments
from tests.trainers.conftest import Train, TrainHere


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Three problems of the tiny set."""
    path = tmp_path / "few.jsonl"
    problems = list(load_problems("tiny:train").problems.values())[:3]
    rows = [{"task_id": each.task_id, "prompt": each.prompt, "tests": list(each.tests)} for each in problems]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_small_set_has_a_default_batch_under_which_it_trains(train: Train, few: Path) -> None:
    options = ("--problems", few, "--steps", "2", "--eval-problems", "0", "--runtime", "local")
    plan = train(*options, "--dry-run")
    assert "each of 3 problems × 8 completions = 24" in plan.stdout
    assert "\nEvaluation: none\n" in plan.stdout
    done = train(*options)
    assert done.code == 0, done.stderr
    reader = RunReader(done.run)
    assert reader.config.options["batch_size"] == 24
    assert [row.metrics["reward/groups"] for row in reader.metrics().rows] == [3, 3]


def test_a_batch_larger_than_the_set_is_refused_with_what_fits(train: Train, few: Path) -> None:
    done = train("--problems", few, "--batch-size", "32", "--runtime", "local")
    assert done.code == 2, done.stderr
    assert "--batch-size 32 with 8 samples needs 4 problems per batch, and the training set has 3" in done.stderr
    assert "hint: use --batch-size 24, or --samples 16" in done.stderr
    assert not done.run.exists()


def test_a_trainer_that_makes_no_step_leaves_a_failed_run(
    train_here: TrainHere, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is refused before a run would come to this.
    monkeypatch.setattr(arguments, "check_filled", lambda *given, **named: None)
    with pytest.raises(TrainingError, match="nothing was trained: the trainer ended without a step"):
        train_here(
            model="tiny", problems=str(few), batch_size=32, steps=2, eval_problems=0, runtime="local", run_name="none"
        )
    [job] = RunReader(tmp_path / "runs" / "none").config.jobs
    assert job.outcome is RunOutcome.FAILED
    assert job.error is not None
    assert job.error.startswith("nothing was trained")
