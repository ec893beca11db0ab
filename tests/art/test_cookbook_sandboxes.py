"""tinker-cookbook in sandboxes of ours: its interface of sandboxes, and rollouts of its recipe for Harbor's tasks."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("tinker_cookbook", minversion="0.6.1", reason="not installed: tinker_cookbook 0.6.1")

from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.exceptions import SandboxError
from tinker_cookbook.rl.rollout_strategy import RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout
from tinker_cookbook.sandbox import SandboxInterface, SandboxTerminatedError
from tinker_cookbook.tokenizer_utils import get_tokenizer

from sandrl.integrations.tinker_cookbook import LostSandboxes, SandrlSandbox, task_sandbox
from tests.support.task_directories import write_task
from tests.support.tasks.base import BASE, import_task_base
from tests.support.tasks.shell import judge, write_shell_task

STOP = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--tag", "tinker", "--force", "--yes"]
RIGHT, WRONG = "echo done > /home/app/answer", "echo nothing > /home/app/answer"


@pytest.fixture
async def sandbox() -> AsyncIterator[Any]:
    import_task_base(os.environ)
    made = await SandrlSandbox.create(BASE, memory_mb=128, network="none")
    yield made
    await made.cleanup()


async def test_a_sandbox_has_the_interface_of_the_cookbook(sandbox: Any) -> None:
    assert isinstance(sandbox, SandboxInterface)
    assert sandbox.sandbox_id
    await sandbox.send_heartbeat()
    ended = await sandbox.run_command("pwd; id -u; echo wrong >&2; exit 3", workdir="/srv")
    assert (ended.stdout, ended.stderr, ended.exit_code) == ("/srv\n0\n", "wrong\n", 3)
    slow, quick = await asyncio.gather(
        sandbox.run_command("echo begun; sleep 60", timeout=1), sandbox.run_command("echo quick")
    )
    assert (slow.stdout, slow.exit_code) == ("begun\n", 124)
    assert "time limit of 1 s" in slow.stderr
    assert quick.stdout == "quick\n"
    long = await sandbox.run_command("head -c 100000 /dev/zero | tr '\\0' x", max_output_bytes=1000)
    assert len(long.stdout) <= 1000
    assert long.stdout.startswith("xx")
    assert "left out" in long.stdout


async def test_files_are_written_and_read(sandbox: Any) -> None:
    written = await sandbox.write_file("/srv/a b/run.sh", "#!/bin/sh\necho ran\n", executable=True)
    assert written.exit_code == 0
    assert (await sandbox.run_command("'/srv/a b/run.sh'")).stdout == "ran\n"
    assert (await sandbox.read_file("/srv/a b/run.sh", max_bytes=9)).stdout == "#!/bin/sh"
    await sandbox.write_file("/srv/bytes", bytes(range(256)) * 4096)
    assert (await sandbox.run_command("wc -c </srv/bytes")).stdout.strip() == str(256 * 4096)
    assert (await sandbox.read_file("/srv/bytes")).exit_code == 0
    for path in ("/srv/missing", "/srv"):
        missing = await sandbox.read_file(path)
        assert missing.exit_code != 0
        assert missing.stderr
    large = await sandbox.run_command("head -c 20000000 /dev/zero >/srv/large")
    assert large.exit_code == 0
    assert "too large" in (await sandbox.read_file("/srv/large")).stderr
    assert (await sandbox.write_file("/srv", "x")).exit_code != 0


async def test_a_sandbox_that_is_gone_is_terminated(sandbox: Any) -> None:
    running = asyncio.create_task(sandbox.run_command("sleep 60"))
    await sandbox.send_heartbeat()
    await asyncio.to_thread(subprocess.run, STOP, check=True, capture_output=True)
    with pytest.raises(SandboxTerminatedError):
        await running
    with pytest.raises(SandboxTerminatedError):
        await sandbox.send_heartbeat()
    await sandbox.cleanup()
    with pytest.raises(SandboxTerminatedError):
        await sandbox.run_command("true")


async def test_a_sandbox_that_cannot_be_made_is_told() -> None:
    with pytest.raises(SandboxError, match="no/such"):
        await SandrlSandbox.create("localhost:1/no/such:image")


class Scripted(TokenCompleter):  # type: ignore[misc] # the framework is not there for the type checker
    """A policy that calls the tool with one command after the other, and says that it is done."""

    def __init__(self, tokenizer: Any, *commands: str, between: Callable[[], None] | None = None) -> None:
        self._tokenizer, self._commands, self._between = tokenizer, commands, between

    async def __call__(self, model_input: Any, stop: Any, **limits: Any) -> Any:
        said = self._tokenizer.decode(model_input.to_ints()).count("<|im_start|>assistant") - 1
        if said and self._between is not None:
            between, self._between = self._between, None
            await asyncio.to_thread(between)
        text = "Done."
        if said < len(self._commands):
            call = {"name": "bash", "arguments": {"command": self._commands[said]}}
            text = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
        tokens = [*self._tokenizer.encode(text, add_special_tokens=False), self._tokenizer.eos_token_id]
        return TokensWithLogprobs(tokens, [0.0] * len(tokens))


@pytest.fixture
def group(tmp_path: Path, untrained_policy: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The recipe's own episodes of a task of ours."""
    import_task_base(os.environ)
    # The recipe imports its usual sandboxes, and does not use them here.
    monkeypatch.setitem(sys.modules, "modal", ModuleType("modal"))
    from tinker_cookbook.recipes.harbor_rl.harbor_env import HarborEnvGroupBuilder, HarborTask

    place = write_shell_task(tmp_path / "task", environment='network_mode = "no-network"', test=judge())
    (place / "environment").mkdir(exist_ok=True)
    task = HarborTask("task", "Write the word done.", place)
    return HarborEnvGroupBuilder(task, str(untrained_policy), "qwen3_instruct", 4, 1, sandbox_factory=task_sandbox)


@pytest.mark.parametrize(("command", "reward"), [(RIGHT, 1.0), (WRONG, 0.0)])
async def test_the_recipe_rewards_what_its_episode_left(
    group: Any, untrained_policy: Path, command: str, reward: float
) -> None:
    policy = Scripted(get_tokenizer(str(untrained_policy)), command)
    rolled = await do_group_rollout(group, policy, LostSandboxes())
    assert rolled.get_total_rewards() == [reward]
    assert "grading_error" not in rolled.trajectories_G[0].transitions[-1].metrics
    assert not rolled.rollout_errors


def stop() -> None:
    subprocess.run(STOP, check=True, capture_output=True)


async def test_an_episode_that_lost_its_sandbox_has_no_reward(group: Any, untrained_policy: Path) -> None:
    policy = Scripted(get_tokenizer(str(untrained_policy)), "true", RIGHT, between=stop)
    with pytest.raises(SandboxTerminatedError):
        await do_group_rollout(group, policy, LostSandboxes())


async def test_another_episode_replaces_one_that_lost_its_sandbox(group: Any, untrained_policy: Path) -> None:
    policy = Scripted(get_tokenizer(str(untrained_policy)), "true", RIGHT, between=stop)
    rolled = await do_group_rollout(group, policy, LostSandboxes(RetryOnFailure(max_retries=1)))
    assert rolled.get_total_rewards() == [1.0]
    assert [error.error_type for error in rolled.rollout_errors] == ["SandboxTerminatedError"]


async def test_a_task_with_several_steps_is_refused(tmp_path: Path) -> None:
    steps = f'[environment]\ndocker_image = "{BASE}"\n[[steps]]\nname = "a"\n[[steps]]\nname = "b"\n'
    files: dict[str, str | None] = {"task.toml": f'schema_version = "1.4"\n{steps}', "instruction.md": None}
    for name in "ab":
        files |= {f"steps/{name}/instruction.md": "Do it.", f"steps/{name}/tests/test.sh": judge()}
    place = write_task(tmp_path / "task", files)
    with pytest.raises(SandboxError, match="several steps"):
        await task_sandbox(place / "environment", 60)


def living() -> list[str]:
    ls = [sys.executable, "-m", "sandrl", "sandboxes", "ls", "--json"]
    listed = subprocess.run(ls, check=True, capture_output=True, text=True)
    return [each["id"] for each in json.loads(listed.stdout)["sandboxes"] if "tinker" in each["tags"]]


async def test_a_sandbox_that_nothing_refers_to_ends() -> None:
    made = await SandrlSandbox.create()
    sandbox_id = made.sandbox_id
    assert sandbox_id in await asyncio.to_thread(living)
    del made
    gc.collect()
    while sandbox_id in await asyncio.to_thread(living):
        pass


def test_nothing_is_left_of_a_process_that_was_killed() -> None:
    program = (
        "import asyncio, time\nfrom sandrl.integrations.tinker_cookbook import SandrlSandbox\n"
        "made = asyncio.run(SandrlSandbox.create())\nprint(made.sandbox_id, flush=True)\ntime.sleep(300)\n"
    )

    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        sandbox_id = process.stdout.readline().strip()
        there = living()
        process.kill()
    assert sandbox_id in there
    clean = [sys.executable, "-m", "sandrl", "sandboxes", "cleanup", "--orphans", "--yes"]
    subprocess.run(clean, check=True, capture_output=True)
    assert living() == []
