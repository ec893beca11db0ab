"""Tasks of our own, in both formats: what solutions, scripts and nothing earn, and which tests the verdicts name.

What the verifiers of Harbor's tasks say is what Harbor itself finds (`tests/integrations/test_harbor.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.tasks import harbor, terminal_bench
from tests.support.tasks.base import import_task_base
from tests.support.tasks.harbor import HarborTask, Numbers, reward_of
from tests.support.tasks.terminal_bench import TerminalBenchTask

pytestmark = pytest.mark.slow
# Its solution has a variable that agents do not have.
_SCRIPTS = [task for task in harbor.TASKS if "solution/solve.sh" in task.files and task.name != "variables"]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import_task_base(os.environ)
    place = tmp_path_factory.mktemp("tasks")
    for task in (*harbor.TASKS, *terminal_bench.TASKS):
        (place / _format(task)).mkdir(exist_ok=True)
        task.write(place / _format(task))
    return place


@pytest.fixture(scope="module")
def scripts(tasks: Path) -> dict[str, Any]:
    """The results of the solutions as scripts, and of a script that does nothing, by the ids of completions."""
    rows = []
    for task in _SCRIPTS:
        for name, script in (("solution", task.files["solution/solve.sh"]), ("nothing", "#!/bin/bash\n")):
            rows.append({"id": f"{task.name}/{name}", "task_id": task.name, "completion": script})
    path = tasks / "scripts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = _sandrl("reward", str(path), "--problems", str(tasks / "harbor"))
    return {result["id"]: result for result in document["results"]}


def _format(task: HarborTask | TerminalBenchTask) -> str:
    return "harbor" if isinstance(task, HarborTask) else "terminal-bench"


def _sandrl(*words: str) -> Any:
    command = [sys.executable, "-m", "sandrl", *words, "--json", "--quiet"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)


def _earned(result: Any, numbers: Numbers) -> None:
    """A result is what a verifier says."""
    if numbers is None:
        assert (result["reward"], result["status"]) == (None, "infrastructure"), result
        return
    assert result["reward"] == pytest.approx(reward_of(numbers)), result
    assert result["status"] == ("passed" if reward_of(numbers) >= 1 else "failed"), result
    assert result["scores"] == pytest.approx(dict(numbers)), result


@pytest.mark.parametrize("task", _SCRIPTS, ids=lambda task: task.name)
def test_a_script_earns_what_the_solution_earns(scripts: dict[str, Any], task: HarborTask) -> None:
    _earned(scripts[f"{task.name}/solution"], task.oracle)


@pytest.mark.parametrize("task", _SCRIPTS, ids=lambda task: task.name)
def test_a_script_that_does_nothing_earns_what_nothing_earns(scripts: dict[str, Any], task: HarborTask) -> None:
    _earned(scripts[f"{task.name}/nothing"], task.nothing)
