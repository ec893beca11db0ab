"""Training on the problems of a set whose quality is known, and going on with the same ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandrl.problems import load_problems
from sandrl.problems.quality import card_digest
from sandrl.runs import RunReader
from sandrl.runs.cards import Card
from tests.trainers.conftest import SMALL, Train


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    """Six problems of the tiny set."""
    path = tmp_path / "six.jsonl"
    chosen = list(load_problems("tiny:train").problems.values())[:6]
    rows = [{"task_id": each.task_id, "prompt": each.prompt, "tests": list(each.tests)} for each in chosen]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def write_cards(path: Path, problems: Path, good: slice) -> set[str]:
    """Writes a card of each problem; those of the slice are good, and their names are returned."""
    loaded = list(load_problems(problems).problems.values())
    names = {each.task_id for each in loaded[good]}
    cards = [
        Card(task_id=each.task_id, kind="tests", digest=card_digest(each), nop=0.0 if each.task_id in names else 1.0)
        for each in loaded
    ]
    path.write_bytes(b"".join(card.to_json() + b"\n" for card in cards))
    return names


def test_a_policy_is_trained_on_good_problems_and_goes_on_with_the_same_ones(
    train: Train, problems: Path, tmp_path: Path
) -> None:
    cards = tmp_path / "measured.jsonl"
    good = write_cards(cards, problems, slice(0, 2))
    options = ("--problems", problems, *SMALL, "--steps", "1", "--min-quality", "0.5", "--cards", cards)
    plan = train(*options, "--dry-run")
    assert "Quality: 4 of 6 problems are left out" in plan.stdout
    done = train(*options)
    assert done.code == 0, done.stderr
    assert "4 of 6 problems are left out" in " ".join(done.stderr.split())
    assert {row.task_id for row in RunReader(done.run).trajectories().rows} == good
    # Measured otherwise since then.
    write_cards(cards, problems, slice(2, 6))
    resumed = train("--resume", done.run, "--steps", "2")
    assert resumed.code == 0, resumed.stderr
    rows = RunReader(done.run).trajectories().rows
    assert {row.step for row in rows} == {0, 1}
    assert {row.task_id for row in rows} == good
    other = train("--resume", done.run, "--min-quality", "0.4")
    assert other.code == 2
    assert "--min-quality has changed" in " ".join(other.stderr.split())
