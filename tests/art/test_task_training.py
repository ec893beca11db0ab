"""A policy learns tasks of a shell from the rewards of their verifiers, and becomes better at those it has not seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.trainers.art.results import GRADIENT_STEPS
from tests.art.training import RENDERER
from tests.support.shell_tasks import import_shell_image, make_shell_policy, shell_tasks, write_shell_tasks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ANSWERS = ("--rollout", "attempts", "--max-attempts", "1", "--extract", "exact", "--max-tokens", "48")


def sandrl(*words: str | Path, runs: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sandrl", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SANDRL_RUNS_DIR": str(runs)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rewards_of_verifiers_make_a_policy_better_at_held_out_tasks(tmp_path: Path) -> None:
    import_shell_image()
    train = write_shell_tasks(tmp_path / "train", shell_tasks("train"))
    held_out = write_shell_tasks(tmp_path / "held_out", shell_tasks("test"))
    make_shell_policy(tmp_path / "policy")

    def examine(policy: Path) -> dict[str, Any]:
        words = ("--model", policy, "--problems", held_out, "--samples", "1", *ANSWERS, "--json")
        summary: dict[str, Any] = json.loads(sandrl("eval", *words, runs=tmp_path))["summary"]
        return summary

    before = examine(tmp_path / "policy")
    size = ("--num-problems", "64", "--batch-size", "128", "--samples", "8", "--steps", "12", "--learning-rate", "6e-4")
    model = ("--backend", "embedded", "--base-model", tmp_path / "policy", "--renderer", RENDERER, "--no-lora")
    words = ("--problems", train, *ANSWERS, *size, *model, "--report-to", "none", "--run-name", "shell")
    sandrl("art", "train", *words, runs=tmp_path)
    rows = RunReader(tmp_path / "shell").metrics().rows
    assert sum(row.metrics.get(GRADIENT_STEPS) or 0 for row in rows) == 12
    assert not any(row.dropped for row in RunReader(tmp_path / "shell").trajectories().rows)
    sandrl("art", "export", "shell", "--to", tmp_path / "trained", runs=tmp_path)
    after = examine(tmp_path / "trained")
    assert before["scored"] == after["scored"] == len(shell_tasks("test"))
    assert after["total_reward"] > before["total_reward"] + 5
