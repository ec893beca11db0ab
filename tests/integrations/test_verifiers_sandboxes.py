"""Agents of verifiers in sandboxes of ours, evaluated by the real `vf-eval` against a scripted endpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.chat_server import ChatServer
from tests.support.stopping import kill_with_sandboxes, stop_sandboxes
from tests.support.tasks.base import BASE, import_task_base

pytestmark = [pytest.mark.needs("verifiers"), pytest.mark.timeout(200)]

# Its agent asks the model once, and does what it says.
_OWN = '''
import json
import verifiers.v1 as vf

PROGRAM = """
import json, subprocess, sys, urllib.request
endpoint, secret, model, prompt = sys.argv[1:]
body = json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode()
headers = {"Authorization": "Bearer " + secret, "Content-Type": "application/json"}
asked = urllib.request.Request(endpoint + "/chat/completions", body, headers)
with urllib.request.urlopen(asked, timeout=60) as answer:
    said = json.load(answer)["choices"][0]["message"]["content"]
subprocess.run(["sh", "-c", said])
"""

class Harness(vf.Harness[vf.HarnessConfig]):
    NEEDS_CONTAINER = True

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        return await runtime.run_program(["python3", "-c", PROGRAM, endpoint, secret, ctx.model, data.prompt], {})

class Task(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    async def setup(self, trace, runtime) -> None:
        await runtime.write("given/number", b"42")

    @vf.reward
    async def code(self, trace, runtime) -> float:
        return float((await runtime.read("answer")).strip() == b"42")

class Tasks(vf.Taskset[Task, vf.TasksetConfig]):
    def load(self):
        for number, prompt in enumerate(PROMPTS):
            yield Task(vf.TaskData(idx=number, prompt=prompt, network_allow=[]), self.config.task)

__all__ = ["Harness", "Tasks"]
'''
_PROGRAM = """
import asyncio, sys
from verifiers.v1.errors import SandboxError
from sandrl.errors import UsageError
from sandrl.integrations.classes.verifiers_runtime import SandboxConfig, SandrlRuntime

async def refused(work, kind=SandboxError):
    try:
        await work
    except kind as error:
        return str(error)
    raise AssertionError("it was not refused")

async def main():
    box = SandrlRuntime(SandboxConfig(image=sys.argv[1], workdir="/made/here", memory=0.25, cpu=1, block=["*"]))
    box.env = {"GIVEN": "yes"}
    await box.start()
    assert (await box.run(["sh", "-c", "pwd; id -u; echo $GIVEN"], {})).stdout.split() == ["/made/here", "0", "yes"]
    await box.write("a/b", bytes(range(256)))
    assert await box.read("a/b", 256) == bytes(range(256))
    await refused(box.read("a/b", 255))
    assert "nothing" in await refused(box.read("nothing"))
    assert (await box.run(["sh", "-c", "exit 3"], {})).exit_code == 3
    assert (await box.run(["/no/such"], {})).exit_code == 127
    await box.run_background(["sh", "-c", "echo begun; sleep 100"], {}, "log")
    await asyncio.sleep(1)
    assert await box.read("log") == b"begun\\n"
    other = box.with_user("65534")
    assert (await other.run(["id", "-u"], {})).stdout == "65534\\n"
    served = await asyncio.start_server(lambda _, writer: (writer.write(b"hello"), writer.close()), "127.0.0.1", 0)
    port = served.sockets[0].getsockname()[1]
    inside = box.host_url(f"http://127.0.0.1:{port}/v1").removeprefix("http://127.0.0.1:").removesuffix("/v1")
    assert (await box.run(["sh", "-c", f"nc 127.0.0.1 {inside} </dev/null"], {})).stdout == "hello"
    assert (await box.run(["sh", "-c", f"nc -w 2 127.0.0.1 {port} </dev/null"], {})).exit_code != 0
    assert "port 8000" in await refused(box.expose(8000))
    await box.stop()
    await refused(box.run(["true"], {}))
    assert "no sandbox was made" in await refused(SandrlRuntime(SandboxConfig(image="localhost:1/none:1")).start())
    assert "block" in await refused(SandrlRuntime(SandboxConfig(block=["example.com"])).start())

asyncio.run(main())
"""
RIGHT, WRONG = "cat given/number > answer", "echo 41 > answer"


def evaluated(place: Path, *words: str) -> list[Any]:
    """The episodes of an evaluation, in the order of their tasks."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("vf-eval")), *words],
        cwd=place,
        env={
            **os.environ,
            "PRIME_API_KEY": "none",
            "HOME": str(place),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH")))),
        },
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    file = place / "outputs" / "run" / "traces.jsonl"
    assert file.exists(), done.stdout + done.stderr
    assert "on the local system" not in done.stdout + done.stderr
    episodes = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return sorted(episodes, key=lambda episode: int(episode["task"]["data"]["idx"]))


def words_for(place: Path, model: ChatServer, *prompts: str) -> list[str]:
    (place / "own_tasks.py").write_text(f"PROMPTS = {prompts!r}\n{_OWN}", encoding="utf-8")
    asked = ["own-tasks", "--model", "scripted", "--client.base-url", model.base_url, "--env.id", "sandrl-sandboxes"]
    return [*asked, "--no-push", "--no-rich", "--run.name", "run"]


def asked_of(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


def test_episodes_have_the_rewards_of_what_their_agents_left_and_none_without_a_sandbox(tmp_path: Path) -> None:
    def say(body: dict[str, Any]) -> str:
        if asked_of(body) == "lost":
            stop_sandboxes("verifiers")
        return WRONG if asked_of(body) == "wrong" else RIGHT

    with ChatServer(say) as model:
        words = words_for(tmp_path, model, "right", "wrong", "lost")
        episodes = evaluated(tmp_path, *words, "--max-concurrent", "1")
    right, wrong, lost = (each["traces"][0] for each in episodes)
    assert [(trace["ok"], trace["rewards"]["code"]["score"]) for trace in (right, wrong)] == [(True, 1.0), (True, 0.0)]
    assert (lost["ok"], lost["rewards"], lost["errors"][-1]["type"]) == (False, {}, "SandboxError")
    assert len({trace["info"]["sandrl"]["sandbox_id"] for trace in (right, wrong, lost)}) == 3


@pytest.mark.slow
def test_an_episode_whose_sandbox_was_stopped_runs_again_and_no_other(tmp_path: Path) -> None:
    asked: list[str] = []

    def say(body: dict[str, Any]) -> str:
        asked.append(asked_of(body))
        if asked == ["first", "second"]:
            stop_sandboxes("verifiers")
        return RIGHT

    with ChatServer(say) as model:
        more = ("--max-concurrent", "1", "--env.sandbox.block", '["*"]')
        words = [*words_for(tmp_path, model, "first", "second"), *more]
        assert [each["ok"] for each in evaluated(tmp_path, *words)] == [True, False]
        again = evaluated(tmp_path, "@", "outputs/run/configs/resolved/eval.json", "--resume")
    assert [each["traces"][0]["rewards"]["code"]["score"] for each in again] == [1.0, 1.0]
    assert asked == ["first", "second", "second"]


def test_a_runtime_has_the_image_users_files_and_doors_that_it_is_asked_for(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM, encoding="utf-8")
    import_task_base(os.environ)
    done = subprocess.run([sys.executable, program, BASE], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_killed_process_leaves_is_seen_and_ended() -> None:
    program = (
        "import asyncio\nfrom sandrl.integrations.classes.verifiers_runtime import SandboxConfig, SandrlRuntime\n"
        "async def main():\n    box = SandrlRuntime(SandboxConfig(sandboxes={'tags': ['killed']}))\n"
        "    await box.start()\n    await asyncio.sleep(300)\n\nasyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        kill_with_sandboxes(process, "killed")
