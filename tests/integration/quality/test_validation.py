"""`sandrl problems validate` on tasks: what it measures, its exit codes, and a run that was killed and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from sandrl.runs.cards import Card
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import judge, write_shell_task

_SOLVE: dict[str, str | None] = {"solution/solve.sh": "echo done > answer\n"}
_ALWAYS = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"
# No reward if there is no answer, and so none on the untouched image.
_SILENT = "#!/bin/bash\n[ -e /home/app/answer ] && echo 1 > /logs/verifier/reward.txt\n"
_SANDRL = (sys.executable, "-m", "sandrl")
_VALIDATE = (*_SANDRL, "problems", "validate")


@pytest.fixture(scope="module", autouse=True)
def _base() -> None:
    import_task_base(os.environ)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for tasks, and the directory of the runs beside it."""
    monkeypatch.setenv("SANDRL_RUNS_DIR", str(tmp_path / "runs"))
    return tmp_path / "tasks"


def test_each_task_has_a_card_and_what_is_wrong_decides_the_exit_code(place: Path) -> None:
    write_shell_task(place / "good", files=_SOLVE)
    write_shell_task(place / "generous", test=_ALWAYS, files=_SOLVE)
    write_shell_task(place / "unsolved")
    write_shell_task(place / "wrong", test=judge("other"), files=_SOLVE)
    done = _validate(str(place), "--repeats", "2", "--json")
    assert done.returncode == 1, done.stderr
    assert "the solutions of 1 of 4 tasks do not always earn 1 (first: wrong: 0 of 2 runs earn 1)" in done.stderr
    assert "1 of 4 tasks reward an agent that does nothing (first: generous: 1)" in done.stderr
    document = json.loads(done.stdout)
    tasks = {task["task_id"]: task for task in document["tasks"]}
    found = {name: (task["oracle"], task["nop"], task["flake_rate"], task["quality"]) for name, task in tasks.items()}
    assert found == {
        "good": (1.0, 0.0, 0.0, 1.0),
        "generous": (1.0, 1.0, 0.0, 0.0),
        "unsolved": (None, 0.0, 0.0, 1.0),
        "wrong": (0.0, 0.0, 0.0, 0.0),
    }
    assert tasks["unsolved"]["unknown"] == ["oracle", "cheats", "mutants"]
    assert document["summary"]["without_solution"] == ["unsolved"]
    assert tasks["good"]["network"].keys() == {"agent", "verifier"}
    assert tasks["good"]["seconds"].keys() >= {"agent", "verifier"}
    assert tasks["good"]["image_bytes"] > tasks["good"]["state_bytes"] > 0
    # The parts that it had before.
    assert {result["id"] for result in document["nothing"]} >= {"good#nop.1", "good#nop.2"}
    assert sorted(result["id"] for result in document["results"] if result["task_id"] == "good") == [
        "good#oracle.1",
        "good#oracle.2",
    ]
    assert document["summary"]["accepted_stubs"].keys() == {"generous"}


def test_a_task_without_a_solution_is_valid_as_far_as_is_known(place: Path) -> None:
    write_shell_task(place / "unsolved")
    done = _validate(str(place), "--repeats", "1")
    assert done.returncode == 5, done.stderr
    assert "1 tasks have no solution, so it is unknown whether they can be solved (first: unsolved)" in done.stderr
    assert "Without a solution, so unknown whether they can be solved: unsolved" in done.stdout


def test_a_verifier_that_gives_nothing_no_reward_is_named_as_broken(place: Path) -> None:
    write_shell_task(place / "good", files=_SOLVE)
    write_shell_task(place / "silent", test=_SILENT, files=_SOLVE)
    done = _validate(str(place), "--repeats", "1", "--run-name", "broken")
    assert done.returncode == 3, done.stderr
    assert "1 of 4 runs have no reward: silent#nop.1: " in done.stderr
    assert "correct the task, or check the runtime" in done.stderr
    # It is judged again by the run that goes on, and the others are not.
    again = _validate("--resume", "broken")
    assert (again.returncode, "Resumed: 3 results of the run stay" in again.stderr) == (3, True), again.stderr


def test_a_killed_validation_goes_on_with_what_is_missing(place: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_shell_task(place / name, instruction=f"{name}: write done", files=_SOLVE, cpus=0.5)
    run = tmp_path / "runs" / "killed"
    words = (*_VALIDATE, str(place), "--repeats", "4", "--run-name", "killed", "--concurrency", "2")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _wait_for_rows(run, 3, process)
        process.kill()
    before = {row.id: row.time for row in RunReader(run).trajectories().rows}
    assert 3 <= len(before) < 16
    done = _validate("--resume", "killed")
    assert done.returncode == 0, done.stderr
    assert f"Resumed: {len(before)} results of the run stay" in done.stderr
    rows = RunReader(run).trajectories().rows
    after = {row.id: row.time for row in rows}
    assert len(rows) == len(after) == 16
    assert sorted(row.index for row in rows) == [*range(16)]
    assert before.items() <= after.items()
    assert {card.task_id: _counts(card) for card in RunReader(run).cards().rows} == {
        "first": (4, 4, 4, 0.0),
        "second": (4, 4, 4, 0.0),
    }
    # Half of its rows are to fail: they have no pass rate.
    show = subprocess.run([*_SANDRL, "runs", "show", "killed"], capture_output=True, text=True, check=True)
    assert show.stdout.startswith("Run killed: problems validate, finished, 16 completions\n")
    # Other tasks are another run.
    (place / "first" / "instruction.md").write_text("Something else.")
    changed = _validate("--resume", "killed")
    assert (changed.returncode, "cannot be resumed: the content of" in changed.stderr) == (2, True), changed.stderr


def test_a_dry_run_counts_the_repeats(place: Path) -> None:
    write_shell_task(place / "good", files=_SOLVE)
    write_shell_task(place / "unsolved")
    for words, count in (((), 9), (("--repeats", "5"), 15)):
        assert json.loads(_validate(str(place), *words, "--dry-run", "--json").stdout)["completions"] == count


def _validate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*_VALIDATE, *words], capture_output=True, text=True, check=False, timeout=200)


def _counts(card: Card) -> tuple[Any, ...]:
    return card.oracle_runs, card.oracle_passes, card.nop_runs, card.flake_rate


def _wait_for_rows(run: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    path = run / "trajectories.jsonl"
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < count):
        time.sleep(0.05)
