"""Tasks in TRL's own `GRPOTrainer`, unchanged, by `sandrl.integrations.trl`: a scripted policy, real sandboxes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

for each in ("torch", "trl", "datasets", "tokenizers", "transformers"):
    pytest.importorskip(each, reason=f"not installed: {each} (make test-grpo)")

from sandrl.errors import InputError  # noqa: E402
from sandrl.integrations.trl import environment_factory  # noqa: E402
from sandrl.rollouts.calls import tool_schemas  # noqa: E402
from sandrl.rollouts.task_tools import TASK_TOOLS  # noqa: E402
from tests.support.scripted_episode import Call  # noqa: E402
from tests.support.tasks.base import import_task_base  # noqa: E402
from tests.support.tasks.shell import INSTRUCTION, judge, write_shell_task  # noqa: E402
from tests.trainers.test_episodes import message, trained, transformers, trl  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

RIGHT, WRONG, SUBMIT = "echo done > answer", "echo nothing > answer", ""
CLEANUP = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--yes"]


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    import_task_base(os.environ)
    return str(write_shell_task(tmp_path / "task"))


class Says(tuple[str, ...]):
    """What a policy says; before its last command something happens."""

    between: Callable[[], object] = staticmethod(lambda: None)

    def __getitem__(self, turn: Any) -> Any:
        if turn == len(self) - 2:
            self.between()
        return super().__getitem__(turn)


def step(tasks: str, directory: Path, *commands: str, between: Callable[[], object] | None = None) -> dict[str, Any]:
    """What TRL logs of a step on two episodes with these commands."""
    calls = [Call("bash", json.dumps({"command": each}), "") if each else Call("submit", "{}", "") for each in commands]
    says = Says([*(message([call]) for call in calls), "Done."])
    says.between = between or says.between
    row = {"prompt": [{"role": "user", "content": "Use the tools. "}], "task_id": "task"}
    return trained(trl.GRPOTrainer, says, 9, environment_factory(tasks), row, [], directory)


def stop_all() -> None:
    subprocess.run([*CLEANUP, "--all", "--force"], check=True, capture_output=True)


@pytest.mark.parametrize(("command", "reward"), [(RIGHT, 1.0), (WRONG, 0.0)])
def test_an_episode_has_the_reward_of_its_task(tasks: str, tmp_path: Path, command: str, reward: float) -> None:
    logged = step(tasks, tmp_path / "out", command)
    assert logged["rewards/TaskEnvironment/mean"] == reward
    assert (logged["tools/call_frequency"], logged["tools/failure_frequency"]) == (1.0, 0.0)


def test_an_episode_that_lost_its_sandbox_has_no_reward(tasks: str, tmp_path: Path) -> None:
    logged = step(tasks, tmp_path / "out", "true", RIGHT, between=stop_all)
    assert (logged["rewards/TaskEnvironment/mean"], logged["reward"]) == (None, None)


@pytest.fixture
def stepped(tmp_path: Path) -> str:
    """A task of two steps, whose reward is the mean of both."""
    import_task_base(os.environ)
    steps = (
        '[[steps]]\nname = "one"\n[steps.agent]\nuser = "app"\n[[steps]]\nname = "two"\n[steps.agent]\nuser = "app"\n'
    )
    files = {
        "instruction.md": None,
        "tests/test.sh": None,
        "steps/one/instruction.md": "First.",
        "steps/one/tests/test.sh": judge("1"),
        "steps/two/instruction.md": "Second.",
        "steps/two/tests/test.sh": judge("2"),
    }
    return str(write_shell_task(tmp_path / "task", environment=steps, files=files))


@pytest.mark.parametrize(
    ("command", "between", "reward"),
    [("echo 2 > answer", None, 1.0), ("true", None, 0.5), ("echo 2 > answer", stop_all, None)],
    ids=["right", "wrong", "lost"],
)
def test_an_episode_of_steps_has_their_reward_and_none_if_its_sandbox_was_lost_after_one(
    stepped: str, tmp_path: Path, command: str, between: Callable[[], object] | None, reward: float | None
) -> None:
    logged = step(stepped, tmp_path / "out", "echo 1 > answer", SUBMIT, command, between=between)
    assert (logged["rewards/TaskEnvironment/mean"], logged["reward"]) == (reward, reward)


def test_an_environment_tells_the_instruction_and_describes_the_tools(tasks: str) -> None:
    environment: Any = environment_factory(tasks)()
    assert environment.reset(task_id="task") == INSTRUCTION
    assert environment.bash(command="echo $((6 * 7))") == "42"
    assert environment.reset(task_id="task") == INSTRUCTION
    assert environment.bash(command=RIGHT) == "(no output)"
    assert environment.submit() == "Submitted."
    assert environment.get_reward() == 1.0
    for schema in tool_schemas(TASK_TOOLS):
        assert transformers.utils.get_json_schema(getattr(environment, schema["name"]))["function"] == schema
    with pytest.raises(InputError, match="there is no problem 'other'"):
        environment.reset(task_id="other")
    with pytest.raises(InputError, match="not a task"):
        environment_factory("bundled")().reset(task_id="museum-ticket")


def test_a_process_with_open_episodes_ends_and_one_that_is_killed_leaves_orphans_for_cleanup(tasks: str) -> None:
    program = (
        "import sys, time\nfrom sandrl.integrations.trl import environment_factory\n"
        "environment = environment_factory(sys.argv[1])()\nenvironment.reset(task_id='task')\n"
        "print(environment.bash(command='echo here'), flush=True)\ntime.sleep(float(sys.argv[2]))\n"
    )

    def living() -> list[Any]:
        ls = [sys.executable, "-m", "sandrl", "sandboxes", "ls", "--json"]
        found: list[Any] = json.loads(subprocess.run(ls, check=True, capture_output=True).stdout)["sandboxes"]
        return [each["id"] for each in found]

    before = living()
    words = [sys.executable, "-c", program, tasks]
    assert subprocess.run([*words, "0"], check=True, capture_output=True, timeout=60).stdout == b"here\n"
    assert living() == before
    with subprocess.Popen([*words, "300"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        assert len(living()) == len(before) + 1
        process.kill()
    subprocess.run([*CLEANUP, "--orphans"], check=True, capture_output=True)
    assert living() == before
