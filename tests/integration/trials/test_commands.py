"""Commands on a task: completions of every kind are rewarded, and a repaired verifier judges their run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandrl.config.scoring import RegradeConfig, RewardConfig, ValidateConfig
from sandrl.errors import GateError, InputError
from sandrl.events import Event
from sandrl.events.results import Status
from sandrl.rewards import run_reward, validate
from sandrl.rewards.regrade import regrade
from sandrl.runs import RunReader
from sandrl.runs.identity import disagreements
from sandrl.settings import load_settings

_CONFIG = """version = "1.0"
[environment]
docker_image = "{image}"
network_mode = "no-network"
workdir = "/tmp"
[verifier.env]
WORD = "${{RIGHT_WORD:-right}}"
"""
_VERIFIER = '[ "$(cat /tmp/answer)" = "$WORD" ] && echo 1 >/logs/verifier/reward.txt{otherwise}\n'
_REPAIRED = " || echo 0 >/logs/verifier/reward.txt"


@pytest.fixture
def task(tmp_path: Path, images: dict[str, str]) -> Path:
    """A task whose verifier writes no reward for a wrong answer."""
    place = tmp_path / "task"
    for folder in ("tests", "solution", "environment"):
        (place / folder).mkdir(parents=True)
    (place / "task.toml").write_text(_CONFIG.format(image=images["debian"]))
    (place / "instruction.md").write_text("Write the word.")
    (place / "solution/solve.sh").write_text("echo right >/tmp/answer\n")
    (place / "tests/test.sh").write_text(_VERIFIER.format(otherwise=""))
    return place


def _reward(task: Path, rows: list[dict[str, object]], runs: Path, **options: object) -> tuple[Path, list[object]]:
    file = task.parent / "completions.jsonl"
    file.write_text("".join(f"{json.dumps({'task_id': 'task', **row})}\n" for row in rows))
    config = RewardConfig.model_validate(
        {"completions": str(file), "problems": str(task), "runs_dir": runs, "network": None, **options}
    )
    run = run_reward(config, load_settings())
    return run.run_dir, [result.reward for result in run.report.results]


def test_a_run_is_judged_again_by_a_repaired_verifier(task: Path, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"completion": "<answer>echo right >answer</answer>"},
        {"code": "echo wrong >answer"},
        {"model_patch": "--- /dev/null\n+++ b/answer\n@@ -0,0 +1 @@\n+wrong\n"},
        {"completion": "I do not know."},
    ]
    run, rewards = _reward(task, rows, tmp_path / "runs")
    assert rewards == [1.0, None, None, 0.0]
    kept = RunReader(run).trajectories().rows
    assert [len(row.states) for row in sorted(kept, key=lambda row: row.index)] == [1, 1, 1, 0]
    assert not disagreements(RunReader(run), is_complete=True)
    (task / "tests/test.sh").write_text(_VERIFIER.format(otherwise=_REPAIRED))
    again = regrade(RegradeConfig(run=str(run), problems=str(task)), load_settings())
    assert {(flip.before.index, flip.after.reward) for flip in again.flips} == {(1, 0.0), (2, 0.0)}
    assert (again.compared, again.unscorable) == (4, 0)
    # The states of a run are completions, too.
    states: list[dict[str, object]] = [{"states": [str(file)]} for file in sorted((run / "states").glob("*.tar.gz"))]
    assert set(_reward(task, states, tmp_path / "runs")[1]) == {0.0, 1.0}


def test_identical_answers_are_judged_once_under_the_same_options(
    task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIGHT_WORD", "other")
    rows: list[dict[str, object]] = [{"code": "echo right >answer"}] * 3
    cache = tmp_path / "cache"
    run, rewards = _reward(task, rows, tmp_path / "runs", cache=cache)
    assert (rewards, sum(row.cached for row in RunReader(run).trajectories().rows)) == ([1.0] * 3, 2)
    run, _ = _reward(task, rows, tmp_path / "runs", cache=cache)
    assert all(row.cached for row in RunReader(run).trajectories().rows)
    (task / "tests/test.sh").write_text(_VERIFIER.format(otherwise=_REPAIRED))
    assert _reward(task, rows, tmp_path / "runs", cache=cache, pass_env=("RIGHT_WORD",))[1] == [0.0] * 3
    assert _reward(task, rows, tmp_path / "runs", cache=cache)[1] == [1.0] * 3


def test_a_variable_that_is_not_passed_makes_a_task_invalid(task: Path, tmp_path: Path) -> None:
    config = (task / "task.toml").read_text()
    (task / "task.toml").write_text(config.replace(":-right", ""))
    run, rewards = _reward(task, [{"code": "true"}], tmp_path / "runs")
    (row,) = RunReader(run).trajectories().rows
    assert (rewards, row.status) == ([None], Status.INVALID_PROBLEM.value)
    assert "RIGHT_WORD" in row.detail


def test_a_wrong_task_beside_others_is_skipped(task: Path, tmp_path: Path) -> None:
    told: list[Event] = []
    wrong = task.parent / "wrong"
    wrong.mkdir()
    (wrong / "task.toml").write_text("[environment]\ncpus = 'many'\n")
    (wrong / "instruction.md").write_text("none")
    with pytest.raises(InputError, match="many"):
        validate(ValidateConfig(given=str(task.parent)), load_settings())
    (task / "tests/test.sh").write_text(_VERIFIER.format(otherwise=_REPAIRED))
    found = validate(ValidateConfig(given=str(task.parent), skip_bad_rows=True), load_settings(), emit=told.append)
    assert [*found.cards] == ["task"]
    assert "1 rows of problems skipped" in str(told)


def test_a_task_is_valid_if_its_solution_earns_more_than_nothing(task: Path) -> None:
    broken = validate(ValidateConfig(given=str(task)), load_settings())
    assert "on the untouched image as well" in broken.invalid["task"]
    (task / "tests/test.sh").write_text(_VERIFIER.format(otherwise=_REPAIRED))
    repaired = validate(ValidateConfig(given=str(task)), load_settings())
    assert (repaired.report.results[0].reward, repaired.nothing[0].reward) == (1.0, 0.0)
    repaired.raise_for_outcome()
    (task / "tests/test.sh").write_text("echo 1 >/logs/verifier/reward.txt\n")
    with pytest.raises(GateError, match="reward an agent that does nothing"):
        validate(ValidateConfig(given=str(task)), load_settings()).raise_for_outcome()
