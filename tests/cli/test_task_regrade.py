"""Runs on tasks that are judged again, after some of their verifiers have changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import judge, write_shell_task


@pytest.fixture(scope="session", autouse=True)
def _base() -> None:
    import_task_base(os.environ)


def test_only_tasks_that_were_answered_and_have_changed_are_named(sandrl: Run, tmp_path: Path) -> None:
    for name in ("answered", "repaired"):
        write_shell_task(tmp_path / "tasks" / name, test=judge("wrong"))
    rows = [{"task_id": name, "code": "echo done > answer"} for name in ("answered", "repaired")]
    (tmp_path / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    done = sandrl("reward", "c.jsonl", "--problems", "tasks", "--run-name", "r", "--runs-dir", "runs")
    assert done.returncode == 0, done.stderr
    write_shell_task(tmp_path / "tasks" / "another")
    (tmp_path / "tasks/repaired/tests/test.sh").write_text(judge("done"), encoding="utf-8")
    again = sandrl("runs", "regrade", "runs/r", "--problems", "tasks")
    assert "tasks are not those of the run: 'repaired' has another content\n" in again.stderr
    assert "Flipped: 1 of 2 verdicts" in again.stdout
