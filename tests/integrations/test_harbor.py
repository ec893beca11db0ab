"""Harbor runs our tasks in sandboxes of `sandrl runtime serve`, through its own environment `cwsandbox`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tasks.base import import_task_base
from tests.support.tasks.harbor import TASKS, HarborTask

HARBOR = os.environ.get("SANDRL_TEST_HARBOR", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not HARBOR, reason="SANDRL_TEST_HARBOR names no harbor (0.25 with cwsandbox, on Python 3.12)"),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("environment")
    places = {"SANDRL_STATE_DIR": "state", "SANDRL_CACHE_DIR": "cache", "HOME": "home"}
    return {"PATH": os.environ["PATH"], **{name: str(place / folder) for name, folder in places.items()}}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The tasks with their images, which this environment of Harbor does not build."""
    import_task_base(environment)
    place = tmp_path_factory.mktemp("tasks")
    for task in TASKS:
        if not task.apart:
            _name_images(task, task.write(place), environment)
    return place


@pytest.fixture(scope="module")
def served(environment: dict[str, str], tasks: Path) -> Iterator[dict[str, str]]:
    """The variables of a foreground daemon."""
    command = [sys.executable, "-m", "sandrl", "runtime", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as daemon:
        assert daemon.stdout is not None
        exported = [re.fullmatch(r"export (\w+)=(\S+)\n", daemon.stdout.readline()) for _ in range(2)]
        yield {each[1]: each[2] for each in exported if each}
        daemon.terminate()
    subprocess.run([sys.executable, "-m", "sandrl", "runtime", "stop"], check=True, env=environment)


@pytest.mark.parametrize("agent", ["oracle", "nop"])
def test_the_numbers_of_the_verifiers_are_those_that_the_tasks_say(
    tasks: Path, environment: dict[str, str], served: dict[str, str], tmp_path: Path, agent: str
) -> None:
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1"}
    command = [HARBOR, "run", "--yes", "-p", str(tasks), "-a", agent, "--env", "cwsandbox", "-o", str(tmp_path)]
    subprocess.run([*command, "--job-name", "job"], check=True, env=environment | served | offline, timeout=600)
    trials = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("job/*/result.json")]
    found = {trial["task_name"].rpartition("/")[2]: (trial["verifier_result"] or {}).get("rewards") for trial in trials}
    assert found == {task.name: task.oracle if agent == "oracle" else task.nothing for task in TASKS if not task.apart}


def _name_images(task: HarborTask, place: Path, environment: dict[str, str]) -> None:
    text = (place / "task.toml").read_text(encoding="utf-8")
    for folder, table in (("environment", "[environment]\n"), ("tests", "[verifier.environment]\n")):
        if (place / folder / "Dockerfile").exists():
            name = f"tests/{task.name}-{folder}:1"
            build = [sys.executable, "-m", "sandrl", "images", "build", str(place / folder), "--tag", name]
            subprocess.run(build, check=True, env=environment)
            named = f'{table}docker_image = "{name}"\n'
            text = text.replace(table, named) if table in text else text + named
    (place / "task.toml").write_text(text, encoding="utf-8")
