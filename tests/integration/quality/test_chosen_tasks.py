"""A set with a weak and a sound task is validated, and then rewarded: all of it, and only what is good enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from tests.support.tasks import weak
from tests.support.tasks.base import import_task_tools, write_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _sandrl(*words: str | Path, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "sandrl", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == exit_code, done.stderr[-2000:]
    return done


def _rewards(done: subprocess.CompletedProcess[str]) -> dict[str, float | None]:
    document: dict[str, Any] = json.loads(done.stdout)
    return {row["task_id"]: row["reward"] for row in document["results"]}


def test_a_weak_task_is_named_or_left_out(tmp_path: Path) -> None:
    import_task_tools(os.environ)
    task = weak.TASKS_BY_NAME["empty-machine"]
    tasks = tmp_path / "tasks"
    task.write(tasks)
    # Its content is of this test alone: the record of the user has it from nowhere else.
    write_files(tasks / "sound", {**task.files, **task.mended, "note.txt": str(tmp_path)})
    validated = _sandrl("problems", "validate", tasks, "--repeats", "2", exit_code=1)
    assert "empty-machine" in validated.stdout
    answers = tmp_path / "answers.jsonl"
    rows = [{"task_id": name, "completion": "<answer>echo READY > log</answer>"} for name in ("empty-machine", "sound")]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("reward", answers, "--problems", tasks, "--json")
    everything = _sandrl(*words)
    assert _rewards(everything).keys() == {"empty-machine", "sound"}
    assert "the verifier of empty-machine rewarded an agent that does nothing with 1" in " ".join(
        everything.stderr.split()
    )
    chosen = _sandrl(*words, "--min-quality", "0.5", "--runs-dir", tmp_path / "runs", "--run-name", "chosen")
    assert _rewards(chosen) == {"sound": 1.0}
    said = " ".join(chosen.stderr.split())
    assert "1 of 2 problems are left out; quality lower than 0.5: 1 (empty-machine)" in said
    assert "1 of 1 problems were never tried with cheats" in said
    assert {card.task_id: card.quality for card in RunReader(tmp_path / "runs/chosen").cards().rows} == {
        "empty-machine": 0.0,
        "sound": 1.0,
    }
