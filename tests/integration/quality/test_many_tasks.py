"""A set of many tasks: a run that measures it is killed and resumed, and says how far it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.runtime import daemon
from sandrl.settings import load_settings
from tests.support.tasks.base import import_task_base
from tests.support.tasks.many import write_many_tasks
from tests.support.terminal import run_on_terminal

SANDRL = [sys.executable, "-m", "sandrl"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.usefixtures("own_index")]
VALIDATE = ("problems", "validate", "--repeats", "1")
REDTEAM = ("redteam", "--exploit", "reward-planted", "--exploit", "trusted-empty", "--mutants", "0")


@pytest.mark.parametrize(
    ("words", "count", "runs_of_task"), [(VALIDATE, 200, 2), (REDTEAM, 40, 4)], ids=["validate", "redteam"]
)
def test_a_killed_run_of_many_tasks_goes_on_and_judges_nothing_twice(
    tmp_path: Path, words: tuple[str, ...], count: int, runs_of_task: int
) -> None:
    import_task_base(os.environ)
    place = write_many_tasks(tmp_path / "many", count)
    runs = tmp_path / "runs"
    command = [*SANDRL, *words, "--problems", str(place), "--runs-dir", str(runs)]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while sum(path.read_bytes().count(b"\n") for path in runs.glob("*/trajectories.jsonl")) < count // 2:
        assert started.poll() is None
        time.sleep(0.05)
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    (run,) = runs.glob("*/")
    known = {row.id for row in RunReader(run).trajectories().rows}
    done = subprocess.run(
        [*command, "--resume", str(run), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    subprocess.run([*SANDRL, "sandboxes", "cleanup", "--orphans", "--yes"], check=True)
    assert daemon.status(load_settings().state_dir).sandboxes == 0
    cards = {card["task_id"]: card for card in json.loads(done.stdout)["tasks"]}
    assert cards.keys() == {path.name for path in place.iterdir()}
    assert {(card["oracle"], card["nop"]) for card in cards.values()} == {(1.0, 0.0)}
    found = Counter(row.id for row in RunReader(run).each_trajectory())
    assert set(found.values()) == {1}
    assert known <= found.keys()
    assert all(len([name for name in found if name.startswith(f"{task}#")]) >= runs_of_task for task in cards)


def test_progress_is_a_line_on_a_terminal_and_lines_in_a_pipe(tmp_path: Path) -> None:
    import_task_base(os.environ)
    command: list[Any] = [*SANDRL, *VALIDATE, "--problems", str(write_many_tasks(tmp_path / "many", 12))]
    shown = run_on_terminal(command, timeout_seconds=600)
    assert shown.exit_code == 0, shown.plain
    assert "24/24" in shown.plain
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "of 24" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
