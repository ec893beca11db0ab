"""Campaigns of cheats on tasks: what earns a reward, what stops it, and what the card says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.runs import RunReader
from tests.support.tasks.base import PYTHON, TOOLS, import_task_base, import_task_tools, write_files

pytestmark = pytest.mark.slow

_DOCKERFILE = "FROM localhost/tests/tasks:1\nRUN mkdir -p /app && chmod 777 /app\nWORKDIR /app\n"
_SOLVE = "#!/bin/bash\necho 5 > /app/sum\necho PASS > /app/report.txt\n"
# It believes the report of the agent, and whatever `grep` of its machine says.
_WEAK = """#!/bin/bash
sleep 0.3
echo 0 > /logs/verifier/reward.txt
grep -q PASS /app/report.txt && echo 1 > /logs/verifier/reward.txt
"""
_SOUND = """#!/bin/bash
[ "$(cat /app/sum 2>/dev/null)" = 5 ] && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""
_SEPARATE = '[verifier]\nenvironment_mode = "separate"\n[[artifacts]]\nsource = "/app/sum"\n'
CHOSEN = ("reward-during", "path-compare", "trusted-pass", "git-refs", "reward-planted", "tests-script")


def _task(place: Path, test: str, config: str = "", *, solve: str = _SOLVE) -> Path:
    files = {
        "instruction.md": "Write the sum of 2 and 3 into /app/sum, and PASS into /app/report.txt.",
        "task.toml": f'schema_version = "1.4"\n{config}',
        "environment/Dockerfile": _DOCKERFILE,
        "tests/test.sh": test,
    }
    if solve:
        files["solution/solve.sh"] = solve
    return write_files(place, files)


def _redteam(*options: str, exit_code: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "sandrl", "redteam", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _chosen() -> list[str]:
    return [word for name in CHOSEN for word in ("-e", name)]


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import_task_base(os.environ)
    place = _task(tmp_path_factory.mktemp("weak") / "weak", _WEAK)
    return _redteam("--problems", str(place), "--mutants", "0", *_chosen(), exit_code=1)


def test_a_weak_verifier_rewards_cheats_and_the_card_says_what_stops_each(weak: dict[str, Any]) -> None:
    [task] = weak["tasks"]
    stopped = {each["name"]: set(each["stopped_by"]) for each in task["cheats"]}
    assert stopped["reward-during"] == {"end_processes", "separate", "artifacts"}
    assert stopped["path-compare"] == {"artifacts"}
    assert stopped["trusted-pass"] == set()
    assert {each["name"]: bool(each["advice"]) for each in task["cheats"]}["trusted-pass"]
    # A reward from before does not count.
    assert "reward-planted" not in stopped
    assert (task["quality"], task["weakest"], task["oracle"], task["nop"]) == (0.0, "cheats", 1.0, 0.0)


def test_a_cheat_with_nothing_to_do_is_named_and_not_counted(weak: dict[str, Any]) -> None:
    [task] = weak["tasks"]
    idle = {each["cheat"]: each["detail"] for each in task["attempts"] if not each["applies"]}
    assert idle == {"git-refs": "it does not apply: there is no git"}
    assert task["cheats_tried"] == len(CHOSEN) - 1


def test_every_attempt_is_a_row_and_a_resumed_campaign_repeats_none(weak: dict[str, Any]) -> None:
    run = RunReader(Path(weak["run"]))
    rows = {row.id: row for row in run.each_trajectory()}
    labels = {"nop.1", "oracle.1", "cheat.trusted-pass", "cheat.trusted-pass@separate", "oracle@artifacts"}
    assert {f"weak#{label}" for label in labels} <= {*rows}
    kept = (run.path / "cards.jsonl").read_bytes()
    again = _redteam("--resume", weak["run"], exit_code=1)
    assert (run.path / "cards.jsonl").read_bytes() == kept
    assert [each["cheats"] for each in again["tasks"]] == [each["cheats"] for each in weak["tasks"]]
    assert [row.id for row in run.each_trajectory()] == [*rows]


def test_a_sound_verifier_rewards_none_of_them_also_without_a_solution(tmp_path: Path) -> None:
    import_task_base(os.environ)
    _task(tmp_path / "tasks/with", _SOUND, _SEPARATE)
    _task(tmp_path / "tasks/without", _SOUND, _SEPARATE, solve="")
    found = _redteam("--problems", str(tmp_path / "tasks"), "--mutants", "0", *_chosen(), exit_code=0)
    cards = {task["task_id"]: task for task in found["tasks"]}
    assert [card["cheats"] for card in cards.values()] == [[], []]
    assert "oracle" not in cards["with"]["unknown"]
    assert {"oracle", "mutants"} <= {*cards["without"]["unknown"]}
    assert cards["without"]["cheats_tried"] == len(CHOSEN) - 1


def test_a_replaced_program_does_its_work_also_where_links_lead_to_it(tmp_path: Path) -> None:
    import_task_tools(os.environ)
    test = f"""#!/bin/bash
[ "$(sh -c 'echo two')" = two ] && [ "$({PYTHON} -c 'print(3)')" = 3 ] || exit 1
{PYTHON} -m pytest /tests/test_sum.py && reward=1 || reward=0
echo $reward > /logs/verifier/reward.txt
"""
    place = _task(tmp_path / "links", test, "[verifier]\ntimeout_sec = 60.0\n")
    # `python3` is a link already.
    base = f"FROM {TOOLS}\nRUN ln -sf bash /bin/sh && mkdir /app\nWORKDIR /app\n"
    check = "def test_sum():\n    assert open('/app/sum').read().strip() == '5'\n"
    write_files(place, {"environment/Dockerfile": base, "tests/test_sum.py": check})
    cheats = ("path-shell", "path-python")
    options = (word for name in cheats for word in ("-e", name))
    [task] = _redteam("--problems", str(place), "--mutants", "0", *options, exit_code=1)["tasks"]
    assert {each["name"]: each["reward"] for each in task["cheats"]} == dict.fromkeys(cheats, 1.0)
    assert (task["oracle"], task["nop"]) == (1.0, 0.0)


def test_a_verifier_that_rewards_doing_nothing_does_not_hold(tmp_path: Path) -> None:
    import_task_base(os.environ)
    place = _task(tmp_path / "open", "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n")
    [task] = _redteam("--problems", str(place), "--mutants", "0", "-e", "trusted-empty", exit_code=1)["tasks"]
    assert (task["cheats"], task["nop"], task["weakest"]) == ([], 1.0, "nop")
