"""Tasks of our own, in both formats: what solutions, scripts and nothing earn, and which tests the verdicts name.

What the verifiers of Harbor's tasks say is what Harbor itself finds (`tests/integrations/test_harbor.py`).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import require_program
from tests.support.tasks import harbor, terminal_bench
from tests.support.tasks.base import import_task_base
from tests.support.tasks.harbor import HarborTask, Numbers, reward_of
from tests.support.tasks.terminal_bench import TerminalBenchTask

pytestmark = pytest.mark.slow
# All with a solution of their only step, whose variables agents have as well.
SCRIPTED = [task for task in harbor.TASKS if "solution/solve.sh" in task.files and task.name != "variables"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import_task_base(os.environ)
    place = tmp_path_factory.mktemp("tasks")
    for task in harbor.TASKS:
        task.write(place / "harbor")
    for each in terminal_bench.TASKS:
        each.write(place / "terminal-bench")
    return place


@pytest.fixture(scope="module")
def of_harbor(place: Path) -> dict[str, Any]:
    return _validated(place / "harbor")


@pytest.fixture(scope="module")
def of_terminal_bench(place: Path) -> dict[str, Any]:
    return _validated(place / "terminal-bench")


@pytest.fixture(scope="module")
def of_scripts(place: Path) -> dict[str, Any]:
    """The results of solutions that are given as completions, and of a script that does nothing."""
    return _rewarded(place, SCRIPTED)


@pytest.fixture(scope="module")
def in_fresh_sandboxes(place: Path) -> dict[str, Any]:
    """The same, where every verifier runs in a fresh sandbox, from the state that the script left."""
    return _rewarded(place, SCRIPTED, "--verifier", "separate")


@pytest.mark.parametrize("task", harbor.TASKS, ids=lambda task: task.name)
def test_a_solution_and_nothing_earn_what_harbor_gives_them(of_harbor: dict[str, Any], task: HarborTask) -> None:
    _earned(of_harbor[task.name], task.oracle)
    _earned(of_harbor[f"{task.name}#nothing"], task.nothing)


@pytest.mark.parametrize("task", SCRIPTED, ids=lambda task: task.name)
def test_a_script_earns_what_the_solution_earns(of_scripts: dict[str, Any], task: HarborTask) -> None:
    _earned(of_scripts[f"{task.name}#solution"], task.oracle)
    _earned(of_scripts[f"{task.name}#nothing"], task.nothing)


@pytest.mark.parametrize("task", SCRIPTED, ids=lambda task: task.name)
def test_a_state_has_everything_that_verifiers_look_at_but_processes(
    in_fresh_sandboxes: dict[str, Any], task: HarborTask
) -> None:
    result = in_fresh_sandboxes[f"{task.name}#solution"]
    assert result["trust"] == "separate"
    _earned(result, {"reward": 0.0} if task.name == "server" else task.oracle)
    _earned(in_fresh_sandboxes[f"{task.name}#nothing"], task.nothing)


def test_a_repaired_verifier_judges_the_states_of_a_run_again(tmp_path: Path) -> None:
    import_task_base(os.environ)
    kept, *repaired = (harbor.TASKS_BY_NAME[name] for name in ("junit", "text", "separate-copy"))
    for task in (kept, *repaired):
        task.write(tmp_path / "harbor")
    _rewarded(tmp_path, (kept, *repaired))
    for task in repaired:
        test = tmp_path / "harbor" / task.name / "tests/test.sh"
        test.write_text(test.read_text() + "[ $reward = 1 ] && echo 0.5 > /logs/verifier/reward.txt\n")
    flips = _sandrl("runs", "regrade", "--problems", str(tmp_path / "harbor"))["flips"]
    found = {(flip["id"], flip["before"]["reward"], flip["after"]["reward"]) for flip in flips}
    assert found == {(f"{task.name}#solution", 1.0, 0.5) for task in repaired}


def test_a_user_that_a_machine_does_not_have_costs_nobody_a_reward(tmp_path: Path) -> None:
    import_task_base(os.environ)
    task = harbor.TASKS_BY_NAME["users"]
    config = task.write(tmp_path / "harbor") / "task.toml"
    config.write_text(config.read_text().replace('user = "app"', 'user = "absent"'))
    for result in _rewarded(tmp_path, [task]).values():
        _earned(result, None)
        assert "no user 'absent'" in result["detail"]


@pytest.mark.parametrize("task", terminal_bench.TASKS, ids=lambda task: task.name)
def test_every_parser_of_terminal_bench_tells_a_solution_from_nothing(
    of_terminal_bench: dict[str, Any], task: TerminalBenchTask
) -> None:
    solved = of_terminal_bench[task.name]
    _earned(solved, {"reward": 1.0})
    assert len(solved["checks"]) == task.checks
    _earned(of_terminal_bench[f"{task.name}#nothing"], None if task.nothing is None else {"reward": task.nothing})


def test_the_result_says_where_the_verifier_ran(of_harbor: dict[str, Any]) -> None:
    separate = {task.name for task in harbor.TASKS if of_harbor[task.name]["trust"] == "separate"}
    assert separate == {"separate-image", "separate-copy"}


@pytest.mark.parametrize(
    ("task", "checks"),
    [
        ("ctrf", [("the sum", "failed", "it is '' and not '5'"), ("the input", "passed", "")]),
        (
            "junit",
            [("tests.answer::is right", "failed", "no answer"), ("tests.answer::is cheap", "not_run", "not measured")],
        ),
    ],
)
def test_the_report_of_a_verifier_says_which_test_failed_and_why(
    of_harbor: dict[str, Any], task: str, checks: list[tuple[str, str, str]]
) -> None:
    found = [(each["name"], each["status"], each["detail"]) for each in of_harbor[f"{task}#nothing"]["checks"]]
    assert [each for each in found if each in checks] == checks


def test_a_time_limit_is_named(of_harbor: dict[str, Any]) -> None:
    assert "time limit of the agent, 3 s" in of_harbor["agent-time"]["detail"]
    assert "untouched image as well" in of_harbor["verifier-time#nothing"]["detail"]


def test_a_machine_reaches_the_hosts_of_its_list_at_any_port_and_no_others(tmp_path: Path) -> None:
    require_program("ip")
    places = {"SANDRL_STATE_DIR": "state", "SANDRL_CACHE_DIR": "cache"}
    environment = os.environ | {name: str(tmp_path / folder) for name, folder in places.items()}
    import_task_base(environment)
    place = harbor.ALLOW_LIST.write(tmp_path)
    sandrl = f"{shlex.quote(sys.executable)} -m sandrl"
    commands = (
        f"{sandrl} problems validate --problems {shlex.quote(str(place))} --repeats 1 --json; {sandrl} runtime stop >&2"
    )
    machine = [sys.executable, "-m", "tests.support.internet", "root", "sh", "-c", commands]
    done = subprocess.run(machine, capture_output=True, text=True, check=False, env=environment, timeout=250)
    (result,) = json.loads(done.stdout)["results"]
    _earned(result, {"reward": 1.0})


def _validated(place: Path) -> dict[str, Any]:
    """The results of solutions by the names of their tasks, and those of nothing by `NAME#nothing`."""
    document = _sandrl("problems", "validate", "--problems", str(place), "--repeats", "1")
    solved = {result["id"]: result for result in document["results"]}
    return solved | {f"{result['task_id']}#nothing": result for result in document["nothing"]}


def _rewarded(place: Path, tasks: Sequence[HarborTask], *options: str) -> dict[str, Any]:
    """The results of scripts by their ids, `NAME#solution` and `NAME#nothing`."""
    rows = [
        {"id": f"{task.name}#{name}", "task_id": task.name, "completion": script}
        for task in tasks
        for name, script in (("solution", task.files["solution/solve.sh"]), ("nothing", "#!/bin/bash\n"))
    ]
    path = place / "scripts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    document = _sandrl("reward", str(path), "--problems", str(place / "harbor"), *options)
    return {result["id"]: result for result in document["results"]}


def _sandrl(*words: str) -> Any:
    command = [sys.executable, "-m", "sandrl", *words, "--json", "--quiet"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)


def _earned(result: Any, numbers: Numbers) -> None:
    if numbers is None:
        assert (result["reward"], result["status"]) == (None, "infrastructure"), result
        return
    assert result["reward"] == pytest.approx(reward_of(numbers)), result
    assert result["status"] == ("passed" if reward_of(numbers) >= 1 else "failed"), result
    assert result.get("scores", {"reward": result["reward"]}) == pytest.approx(dict(numbers)), result
