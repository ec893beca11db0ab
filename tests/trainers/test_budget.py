"""A training with a budget: it stops between two steps, and continues with a larger budget."""

from __future__ import annotations

import json
import re

import pytest

from sandrl.runs import RunReader
from sandrl.runs.held import held_by
from tests.trainers.conftest import SMALL, Train


def test_a_training_stops_between_steps_saves_and_goes_on_with_a_larger_budget(train: Train) -> None:
    done = train(*SMALL, "--steps", "300", "--budget", "8s")
    assert done.code == 1, done.stderr
    assert "the budget of 8s is used up (" in done.stderr
    assert "sandrl grpo --resume run continues with a larger --budget" in done.stderr
    reader = RunReader(done.run)
    held = held_by(reader).seconds
    rows = reader.metrics().rows
    assert 0 < held < 8 + 4
    assert rows[-1].metrics["sandbox_seconds"] == pytest.approx(held, abs=0.01)
    counts = [row.metrics["sandbox_seconds"] or 0.0 for row in rows]
    assert counts == sorted(counts)
    saved = re.search(r"after (\d+) of 300 steps is saved in \S+/checkpoint-(\d+)\n", done.stderr)
    assert saved, done.stderr
    assert saved[1] == saved[2]
    # A step that lasts much longer than those before it may be cut off: then the last checkpoint is the one before it.
    assert 0 < int(saved[1]) <= len(rows)
    assert reader.config.jobs[-1].outcome == "interrupted"
    refused = train("--resume", "run", "--budget", "1s")
    assert refused.code == 1
    assert "a larger --budget resumes the run" in refused.stderr
    again = train("--resume", "run", "--budget", "16s")
    assert again.code == 1, again.stderr
    assert held_by(RunReader(done.run)).seconds > held
    assert len(RunReader(done.run).metrics().rows) > len(rows)
    assert RunReader(done.run).config.options["budget"] == "16s"


def test_a_dry_run_counts_steps_and_evaluations_and_makes_nothing(train: Train) -> None:
    words = ("--batch-size", "8", "--samples", "4", "--steps", "5", "--eval-problems", "16", "--runtime", "local")
    done = train(*words, "--dry-run", "--json")
    assert done.code == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["steps"] == 5
    assert document["outlook"]["completions"] == 5 * 8 + 2 * 16
    assert document["outlook"]["sandbox_seconds"]["at_most"] is None
    assert not done.run.exists()
