"""The numbers of real runs agree: finished, interrupted, and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.events import CompletionFinished, Event
from sandrl.problems import Problem
from sandrl.rewards import run_reward
from sandrl.runs import RunReader, completion_metrics, disagreements
from sandrl.runs.log import logged_executions
from sandrl.sandboxes import Interrupt
from sandrl.settings import Settings
from tests.support.judges import reward_config

PROBLEM = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
RIGHT, WRONG = "def f(x):\n    return x + 1\n", "def f(x):\n    return x\n"
SLOW = "import time\ntime.sleep(1.5)\n"


@pytest.mark.parametrize("fresh", [False, True], ids=["cells", "fresh"])
def test_of_a_run_that_finished_everything_agrees(settings: Settings, tmp_path: Path, fresh: bool) -> None:
    codes = [RIGHT, RIGHT, WRONG, "", "def f(x: return"]
    finished = run_reward(reward_config(tmp_path, PROBLEM, codes, fresh_sandboxes=fresh, concurrency=2), settings)
    reader = RunReader(finished.run_dir)
    assert disagreements(reader, is_complete=True) == ()
    [metrics] = reader.metrics().rows
    counted = {name: metrics.metrics[name] for name in ("completions", "executed", "cache_hits", "no_code")}
    assert counted == {"completions": 5, "executed": 3, "cache_hits": 1, "no_code": 1}
    assert metrics.metrics["aviato/executions"] == metrics.metrics["executions"] == 3
    assert metrics.metrics["aviato/sandboxes_created"] == (3 if fresh else 1)
    assert (metrics.metrics["aviato/exec_successes"], metrics.metrics["aviato/exec_failures"]) == (1, 2)
    assert len(logged_executions(reader.log().rows)) == 3
    for part in ("queue", "exec", "judge", *(["startup"] if fresh else [])):
        assert metrics.metrics[f"aviato/{part}_seconds_p50"] is not None
    assert finished.report.summary.pass_rate == metrics.metrics["pass_rate"]


def test_of_completions_without_code_that_get_no_reward_agrees(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text("def none(verdict, completion):\n    return None\n", encoding="utf-8")
    wanted = reward_config(tmp_path, PROBLEM, [RIGHT, RIGHT, "", ""], reward=f"{tmp_path}/policy.py:none")
    finished = run_reward(wanted, settings)
    assert finished.report.summary.abstained == 4
    assert disagreements(RunReader(finished.run_dir), is_complete=True) == ()


def test_a_timeout_is_an_error_of_its_execution(settings: Settings, tmp_path: Path) -> None:
    hanging = reward_config(tmp_path, PROBLEM, ["import time\ntime.sleep(60)"], timeout_seconds=0.5, concurrency=2)
    [metrics] = RunReader(run_reward(hanging, settings).run_dir).metrics().rows
    assert (metrics.metrics["aviato/exec_errors"], metrics.metrics["status/timeout"]) == (1, 1)


def test_of_an_interrupted_run_what_was_finished_agrees(settings: Settings, tmp_path: Path) -> None:
    interrupt = Interrupt()
    codes = [f"{SLOW}{RIGHT}# {number}" for number in range(8)]

    def stop_after_the_first(event: Event) -> None:
        if isinstance(event, CompletionFinished):
            interrupt.request(signal.SIGINT)
            interrupt.request(signal.SIGINT)

    finished = run_reward(
        reward_config(tmp_path, PROBLEM, codes, concurrency=2), settings, emit=stop_after_the_first, interrupt=interrupt
    )
    assert 0 < len(finished.report.results) < len(codes)
    assert finished.report.unfinished
    reader = RunReader(finished.run_dir)
    assert disagreements(reader, is_complete=False) == ()
    [metrics] = reader.metrics().rows
    assert metrics.metrics["completions"] == len(reader.trajectories().rows)
    assert reader.config.jobs[0].outcome == "interrupted"


def test_of_a_killed_run_what_was_saved_agrees(settings: Settings, tmp_path: Path) -> None:
    codes = [f"{RIGHT}# {number}" for number in range(400)]
    wanted = reward_config(tmp_path, PROBLEM, codes, concurrency=2)
    words = [
        "reward", wanted.completions, "--problems", wanted.problems, "--runtime", "local", "--concurrency", "2",
        "--runs-dir", tmp_path / "runs", "--run-name", "killed", "--verbose",
    ]  # fmt: skip
    command = [sys.executable, "-m", "sandrl", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        while b"[5/400]" not in process.stderr.readline():
            pass
        os.kill(process.pid, signal.SIGKILL)
    reader = RunReader(tmp_path / "runs" / "killed")
    rows = reader.trajectories().rows
    assert 5 <= len(rows) < 400
    assert disagreements(reader, is_complete=False) == ()
    assert completion_metrics(rows)["pass_rate"] == 1.0
    assert reader.metrics().rows == ()
