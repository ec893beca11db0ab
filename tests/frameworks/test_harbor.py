"""Harbor runs our tasks: in its environment `cwsandbox` with `sandrl runtime serve`, and in sandrl's environment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.tasks.base import import_task_base
from tests.support.tasks.harbor import TASKS, HarborTask
from tests.support.tasks.shell import write_shell_task

pytest.importorskip("harbor", reason="not installed: harbor (make test-frameworks)")

HARBOR = str(Path(sys.executable).with_name("harbor"))
OURS = "sandrl.integrations.harbor:SandrlEnvironment"
FEW = ("names", "ctrf", "separate-copy", "users")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("environment")
    places = {"SANDRL_STATE_DIR": "state", "SANDRL_CACHE_DIR": "cache", "HOME": "home"}
    more = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DO_NOT_TRACK": "1"}
    if path := os.environ.get("PYTHONPATH"):
        more["PYTHONPATH"] = path
    return {"PATH": os.environ["PATH"], **more, **{name: str(place / folder) for name, folder in places.items()}}


@pytest.fixture(scope="module", autouse=True)
def _runtime(environment: dict[str, str]) -> Iterator[None]:
    import_task_base(environment)
    yield
    subprocess.run([sys.executable, "-m", "sandrl", "runtime", "stop"], check=True, env=environment)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The tasks with their images, which `cwsandbox` does not build."""
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


def run(tasks: Path, environment: dict[str, str], out: Path, agent: str, name: str = OURS) -> dict[str, Any]:
    """The results of trials, by the names of their tasks."""
    words = ["run", "--yes", "-p", str(tasks), "-a", agent, "--env", name, "-o", str(out), "-n", "3"]
    subprocess.run([HARBOR, *words, "--job-name", "job"], check=True, env=environment, timeout=600)
    trials = [json.loads(path.read_text(encoding="utf-8")) for path in out.glob("job/*/result.json")]
    return {trial["task_name"].rpartition("/")[2]: trial for trial in trials}


def rewards(trials: dict[str, Any]) -> dict[str, Any]:
    return {name: (trial["verifier_result"] or {}).get("rewards") for name, trial in trials.items()}


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["oracle", "nop"])
def test_the_numbers_of_cwsandbox_are_those_that_the_tasks_say(
    tasks: Path, environment: dict[str, str], served: dict[str, str], tmp_path: Path, agent: str
) -> None:
    found = rewards(run(tasks, environment | served, tmp_path, agent, "cwsandbox"))
    assert found == {task.name: task.oracle if agent == "oracle" else task.nothing for task in TASKS if not task.apart}


@pytest.mark.parametrize("agent", ["oracle", "nop"])
@pytest.mark.parametrize("names", [FEW, pytest.param((), marks=pytest.mark.slow)], ids=["few", "all"])
def test_the_numbers_of_our_environment_are_those_that_the_tasks_say(
    environment: dict[str, str], tmp_path: Path, agent: str, names: tuple[str, ...]
) -> None:
    chosen = [task for task in TASKS if (task.name in names if names else not task.apart)]
    for task in chosen:
        task.write(tmp_path / "tasks")
    found = run(tmp_path / "tasks", environment, tmp_path / "out", agent)
    assert rewards(found) == {task.name: task.oracle if agent == "oracle" else task.nothing for task in chosen}
    # What Harbor keeps is a run of ours.
    imported = [
        sys.executable,
        "-m",
        "sandrl",
        "runs",
        "import",
        str(tmp_path / "out/job"),
        "--runs-dir",
        "runs",
        "--json",
    ]
    made = subprocess.run(imported, check=True, capture_output=True, text=True, env=environment, cwd=tmp_path)
    without = sum(trial["exception_info"] is not None and not is_the_agents(trial) for trial in found.values())
    told = json.loads(made.stdout)
    assert (told["completions"], told["unrewarded"]) == (len(chosen), without)


def is_the_agents(trial: dict[str, Any]) -> bool:
    return bool(trial["exception_info"]["exception_type"] == "AgentTimeoutError")


def test_a_sandbox_that_is_stopped_in_the_middle_gives_no_reward(environment: dict[str, str], tmp_path: Path) -> None:
    solve = {"solution/solve.sh": "#!/bin/bash\necho done > answer\nsleep 300\n"}
    write_shell_task(tmp_path / "tasks/slow", files={**solve})
    words = ["run", "--yes", "-p", str(tmp_path / "tasks"), "-a", "oracle", "--env", OURS, "-o", str(tmp_path / "out")]
    with subprocess.Popen([HARBOR, *words, "--job-name", "job", "--max-retries", "0"], env=environment) as harbor:
        stop = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--tag", "harbor", "--force", "--yes"]
        until = time.monotonic() + 120
        while "stopped 1" not in subprocess.run(stop, capture_output=True, text=True, env=environment).stdout:
            assert time.monotonic() < until
            time.sleep(3)
        harbor.wait(120)
    [path] = (tmp_path / "out/job").glob("*/result.json")
    trial = json.loads(path.read_text(encoding="utf-8"))
    assert trial["exception_info"]["exception_type"] == "SandboxLostError"
    assert trial["verifier_result"] is None


def test_an_image_that_cannot_be_had_is_a_failed_build(environment: dict[str, str], tmp_path: Path) -> None:
    write_shell_task(tmp_path / "tasks/none")
    path = tmp_path / "tasks/none/task.toml"
    path.write_text(re.sub(r'docker_image = ".*"', 'docker_image = "localhost:1/no/such:1"', path.read_text()))
    [trial] = run(tmp_path / "tasks", environment, tmp_path / "out", "nop").values()
    assert trial["exception_info"]["exception_type"] == "SandboxBuildFailedError"
    assert trial["verifier_result"] is None


def test_nothing_is_left_of_a_harbor_that_was_killed(environment: dict[str, str], tmp_path: Path) -> None:
    write_shell_task(tmp_path / "tasks/slow", files={"solution/solve.sh": "#!/bin/bash\nsleep 300\n"})
    words = ["run", "--yes", "-p", str(tmp_path / "tasks"), "-a", "oracle", "--env", OURS, "-o", str(tmp_path / "out")]
    ls = [sys.executable, "-m", "sandrl", "sandboxes", "ls", "--json"]

    def living() -> list[Any]:
        listed = subprocess.run(ls, check=True, capture_output=True, text=True, env=environment)
        return [each for each in json.loads(listed.stdout)["sandboxes"] if "harbor" in each["tags"]]

    with subprocess.Popen([HARBOR, *words, "--job-name", "job"], env=environment, start_new_session=True) as harbor:
        until = time.monotonic() + 120
        while not living():
            assert time.monotonic() < until
            time.sleep(0.5)
        os.killpg(harbor.pid, signal.SIGKILL)
    clean = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--orphans", "--yes"]
    subprocess.run(clean, check=True, capture_output=True, env=environment)
    assert living() == []


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
