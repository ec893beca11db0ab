"""A task that a replaced program beats, and one whose solution no untouched machine accepts, under `--verifier`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.runs.cards import Card
from tests.support.tasks.base import import_task_base, write_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_DOCKERFILE = "FROM localhost/tests/tasks:1\nRUN mkdir -p /app && chmod 777 /app /srv\nWORKDIR /app\n"
_TEST = """#!/bin/bash
place={place}
echo 0 > /logs/verifier/reward.txt
grep -qx 5 $place/sum && echo 1 > /logs/verifier/reward.txt
"""
_SHIM = "grep=$(command -v grep); rm -f $grep; printf '#!/bin/sh\\nexit 0\\n' > $grep; chmod 755 $grep"
ARTIFACTS = ("--verifier", "artifacts")


def _sandrl(*words: str | Path, exit_code: int = 0) -> dict[str, Any]:
    command = [sys.executable, "-m", "sandrl", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _cards(found: dict[str, Any]) -> dict[str, Card]:
    return {card.task_id: card for card in RunReader(Path(found["run"])).cards().rows}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tasks `inside`, whose answer is in the working directory, and `outside`, where the verifier names no path."""
    import_task_base(os.environ)
    place = tmp_path_factory.mktemp("settings")
    for name, directory, spelled in (("inside", "/app", "/app"), ("outside", "/srv", "'/'srv")):
        files = {
            "instruction.md": f"Write the sum of 2 and 3 into {directory}/sum.",
            "task.toml": 'schema_version = "1.4"\n',
            "environment/Dockerfile": _DOCKERFILE,
            "tests/test.sh": _TEST.format(place=spelled),
            "solution/solve.sh": f"#!/bin/bash\necho 5 > {directory}/sum\n",
            # Its content is of this test alone: the record of the user has it from nowhere else.
            "note.txt": str(place),
        }
        write_files(place / "tasks" / name, files)
    return place / "tasks"


@pytest.fixture(scope="module")
def measured(tasks: Path) -> dict[str, Card]:
    """Their cards, after one cheat."""
    return _cards(_sandrl("redteam", "--problems", tasks, "--mutants", "0", "-e", "path-compare", exit_code=1))


def test_the_card_says_what_a_setting_is_worth(measured: dict[str, Card]) -> None:
    for card in measured.values():
        assert (card.verifier, card.quality, card.weakest) == ("task", 0.0, "cheats")
        assert card.oracle_under["separate"] == 1.0
    assert measured["inside"].quality_under == {"separate": 0.0, "artifacts": 1.0}
    assert measured["outside"].quality_under == {"separate": 0.0, "artifacts": 0.0}
    assert measured["outside"].under("artifacts").parts["oracle"] == 0.0


def test_problems_are_chosen_by_their_quality_in_this_run(
    measured: dict[str, Card], tasks: Path, tmp_path: Path
) -> None:
    answers = tmp_path / "answers.jsonl"
    given = [("inside", "echo 5 > /app/sum"), ("inside", _SHIM), ("outside", "echo 5 > /srv/sum")]
    rows = [{"task_id": name, "completion": f"<answer>{text}</answer>"} for name, text in given]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("reward", answers, "--problems", tasks, "--runs-dir", tmp_path / "runs", "--run-name")
    plain = _sandrl(*words, "plain")
    assert [row["reward"] for row in plain["results"]] == [1.0, 1.0, 1.0]
    chosen = _sandrl(*words, "chosen", "--min-quality", "0.5", *ARTIFACTS)
    assert [(row["task_id"], row["reward"]) for row in chosen["results"]] == [("inside", 1.0), ("inside", 0.0)]
    assert {row["trust"] for row in chosen["results"]} == {"separate"}
    again = _sandrl("runs", "regrade", tmp_path / "runs/plain", *ARTIFACTS)
    assert {each["index"] for each in again["flips"]} == {1, 2}
    shown = _sandrl("problems", "cards", tasks, *ARTIFACTS)
    assert {card["task_id"]: card["quality"] for card in shown["tasks"]} == {"inside": 1.0, "outside": 0.0}


def test_what_is_measured_under_a_setting_is_a_card_of_its_own(measured: dict[str, Card], tasks: Path) -> None:
    validated = _sandrl("problems", "validate", tasks, "--repeats", "2", *ARTIFACTS, exit_code=1)
    cards = _cards(validated)
    assert {name: (card.verifier, card.oracle_passes) for name, card in cards.items()} == {
        "inside": ("artifacts", 2),
        "outside": ("artifacts", 0),
    }
    cheated = _sandrl("redteam", "--problems", tasks / "inside", "--mutants", "0", "-e", "path-compare", *ARTIFACTS)
    assert _cards(cheated)["inside"].cheats == ()
    plain = {card["task_id"]: card for card in _sandrl("problems", "cards", tasks)["tasks"]}
    assert plain["outside"]["oracle"] == measured["outside"].oracle == 1.0
    assert plain["inside"]["quality"] == 0.0
