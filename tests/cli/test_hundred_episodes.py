"""A hundred episodes at once on a bad day: the endpoint is flaky, disks are filled, and the daemon is killed twice."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from sandrl.events.results import Status
from sandrl.runs import RunReader, TrajectoryRow
from sandrl.settings import load_settings
from tests.cli.conftest import SANDRL
from tests.support.dead_daemon import kill_daemon
from tests.support.scripted_model import ScriptedModel
from tests.support.tasks.base import import_task_base
from tests.support.tasks.hundred import EXPECTED, FlakyModel, repair, write_tasks

SAMPLES = 10
_PATIENCE_SECONDS = 900


def rows_of(run: Path) -> dict[str, TrajectoryRow]:
    rows = RunReader(run).trajectories().rows
    assert len({row.id for row in rows}) == len(rows), "one row counts for each episode"
    return {row.id: row for row in rows}


def check(rows: dict[str, TrajectoryRow]) -> None:
    """Every reward is the right one, or there is none because of the infrastructure."""
    for row in rows.values():
        if row.reward is None:
            assert row.status == Status.INFRASTRUCTURE, (row.id, row.detail)
            assert row.detail, row.id
        else:
            assert row.reward == EXPECTED[row.task_id], (row.id, row.detail)


def patiently(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SANDRL, *words], capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("own_runtime")
def test_a_hundred_episodes_survive_a_bad_day(tmp_path: Path) -> None:
    import_task_base(os.environ)
    tasks, run = write_tasks(tmp_path / "tasks"), tmp_path / "runs" / "hundred"
    words = ("eval", "--problems", str(tasks), "--samples", str(SAMPLES), "--runs-dir", str(run.parent))
    with ScriptedModel(FlakyModel()) as server:
        more = ("--base-url", server.base_url, "--run-name", run.name, "--json", "--out", str(tmp_path / "out.jsonl"))
        with subprocess.Popen([*SANDRL, *words, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
            for share in (0.2, 0.5):
                while command.poll() is None and finished(run) < share * SAMPLES * len(EXPECTED):
                    time.sleep(0.1)
                assert command.poll() is None, command.communicate()[1].decode()
                kill_daemon(load_settings().state_dir)
            _, errors = command.communicate(timeout=_PATIENCE_SECONDS)
        assert command.returncode in (0, 3), errors.decode()
        first = rows_of(run)
        assert len(first) == SAMPLES * len(EXPECTED)
        check(first)
        resumed = patiently("eval", "--resume", str(run), "--json")
    assert resumed.returncode == 0, resumed.stderr
    rows = rows_of(run)
    assert Counter(row.task_id for row in rows.values()) == dict.fromkeys(EXPECTED, SAMPLES)
    check(rows)
    assert all(row.reward is not None for row in rows.values())
    # What had a reward is not played again.
    assert all(rows[name] == row for name, row in first.items() if row.reward is not None)
    results = json.loads(resumed.stdout)["results"]
    assert [each["id"] for each in results] == [f"{name}#{n}" for name in EXPECTED for n in range(1, SAMPLES + 1)]
    repair(tasks)
    judged = patiently("runs", "regrade", str(run), "--json")
    assert judged.returncode == 0, judged.stderr
    changed = {each["id"] for each in json.loads(judged.stdout)["flips"]}
    assert changed == {f"task-5#{sample}" for sample in range(1, SAMPLES + 1)}


def finished(run: Path) -> int:
    """How many episodes of a run that goes on have ended."""
    try:
        return (run / "trajectories.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0
