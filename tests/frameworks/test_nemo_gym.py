"""NeMo-Gym: sandboxes of ours by its own API, and rollouts of its own agent that our resources server verifies."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandrl.errors import SandboxLostError
from tests.integrations.running import running
from tests.support.stopping import kill_with_sandboxes, stop_sandboxes, stopping_sandboxes
from tests.support.tasks.base import BASE, import_task_base

# What omegaconf says of NeMo-Gym.
pytestmark = pytest.mark.filterwarnings("ignore:register_new_resolver:UserWarning")

pytest.importorskip("omegaconf", reason="not installed: nemo-gym (make test-frameworks)")

RIGHT, WRONG = "<answer>def f(x): return x + 1</answer>", "<answer>def f(x): return 2 * x</answer>"
SLOW = RIGHT.replace("<answer>", "<answer>import time\ntime.sleep(3)\n")
TRUTH = {"assert_case": ["assert f(1) == 2", "assert f(2) == 3"]}


async def test_an_episode_in_a_sandbox_has_the_reward_that_its_program_says(tmp_path: Path) -> None:
    from nemo_gym.sandbox import AsyncSandbox, SandboxSpec, SandboxStatus, list_providers

    assert "sandrl" in list_providers()
    import_task_base(os.environ)
    (tmp_path / "test.sh").write_text('[ "$(cat answer)" = 42 ] && echo 1 || echo 0\n')
    for answer, reward in ((42, "1"), (41, "0")):
        spec = SandboxSpec(
            image=BASE,
            workdir="/root",
            env={"ANSWER": str(answer)},
            files={"/root/given": "a line\n"},
            metadata={"instance_id": "org/one two"},
            resources={"memory_mib": 128, "cpu": 1},
        )
        async with AsyncSandbox({"sandrl": {"network": "none"}}, spec) as sandbox:
            await sandbox.start()
            assert await sandbox.status() == SandboxStatus.RUNNING
            done = await sandbox.exec('cat given; echo "$ANSWER" > answer; exit 3', user="root")
            assert (done.stdout, done.return_code, done.error_type) == ("a line\n", 3, None)
            await sandbox.upload(tmp_path / "test.sh", "/tests/test.sh")
            assert (await sandbox.exec("sh /tests/test.sh > /reward")).return_code == 0
            await sandbox.download("/reward", tmp_path / "out/reward")
            assert (tmp_path / "out/reward").read_text().strip() == reward
            late = await sandbox.exec("sleep 60", timeout_s=1)
            assert (late.error_type, late.return_code) == ("timeout", 125)
            assert (await sandbox.exec("true", user="nobody-of-this-name")).error_type == "user"
            with pytest.raises(FileNotFoundError, match="/nothing"):
                await sandbox.download("/nothing", tmp_path / "nothing")


async def test_a_sandbox_that_is_stopped_in_the_middle_is_no_result_of_a_command() -> None:
    from nemo_gym.sandbox import AsyncSandbox, SandboxSpec, SandboxStatus

    async with AsyncSandbox({"sandrl": {"sandboxes": {"tags": ["stopped"]}}}, SandboxSpec()) as sandbox:
        await sandbox.start()
        command = asyncio.ensure_future(sandbox.exec("sleep 100"))
        await asyncio.to_thread(stop_sandboxes, "stopped")
        with pytest.raises(SandboxLostError):
            await command
        assert await sandbox.status() == SandboxStatus.ERROR


def test_what_a_killed_process_leaves_is_seen_and_ended() -> None:
    program = (
        "import time\nfrom nemo_gym.sandbox import Sandbox, SandboxSpec\n"
        "sandbox = Sandbox({'sandrl': {'sandboxes': {'tags': ['killed']}}}, SandboxSpec()).start()\ntime.sleep(300)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        kill_with_sandboxes(process, "killed")


@pytest.mark.parametrize(
    ("more", "message"),
    [({"image": "localhost:1/no/such:image"}, "image"), ({"entrypoint": ["true"]}, "no such property: entrypoint")],
    ids=["image", "entrypoint"],
)
async def test_a_sandbox_that_cannot_be_made_is_an_error_of_its_creation(more: dict[str, Any], message: str) -> None:
    from nemo_gym.sandbox import AsyncSandbox, SandboxCreateError, SandboxSpec

    with pytest.raises(SandboxCreateError, match=message):
        await AsyncSandbox({"sandrl": {}}, SandboxSpec(**more)).start()


def row_of(answer: str) -> dict[str, Any]:
    return {
        "responses_create_params": {"input": [{"role": "user", "content": answer}]},
        "verifier_metadata": {"ground_truth": TRUTH},
        "agent_ref": {"type": "responses_api_agents", "name": "agent"},
    }


@dataclass
class Gym:
    """Servers of NeMo-Gym, and what a run of its agent on some prompts has kept."""

    place: Path
    results: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)

    async def collect(self, *answers: str, resume: bool = False) -> None:
        from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper

        rows = self.place / "rows.jsonl"
        rows.write_text("".join(json.dumps(row_of(answer)) + "\n" for answer in answers))
        config = RolloutCollectionConfig(
            input_jsonl_fpath=str(rows),
            output_jsonl_fpath=str(self.place / "out.jsonl"),
            upload_rollouts_to_wandb=False,
            disable_aggregation=True,
            resume_from_cache=resume,
        )
        await RolloutCollectionHelper().run_from_config(config)
        self.results, self.failures = (
            sorted(map(json.loads, (self.place / name).read_text().splitlines()), key=lambda row: row["_ng_task_index"])
            for name in ("out.jsonl", "out_failures.jsonl")
        )


Start = Callable[..., AbstractAsyncContextManager[Gym]]


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[dict[str, Any]]:
    """Serves an application from this event loop: NeMo-Gym has one client for a process, which belongs to a loop."""
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        ended = asyncio.ensure_future(server._serve([listening]))
        while not server.started:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.01)
        yield {"host": "127.0.0.1", "port": listening.getsockname()[1]}
        server.should_exit = True
        await ended


@pytest.fixture
def gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts the servers of a rollout; the model says what it is asked to."""
    from fastapi import FastAPI
    from nemo_gym import global_config, server_utils
    from omegaconf import OmegaConf

    from sandrl.integrations.nemo_gym import CodeServer

    model = FastAPI()

    @model.post("/v1/responses")
    async def responses(body: dict[str, Any]) -> dict[str, Any]:
        text = {"type": "output_text", "text": body["input"][0]["content"], "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
        about = {"id": "r", "created_at": 0, "model": "scripted", "object": "response", "output": [message]}
        return about | {"parallel_tool_calls": False, "tool_choice": "none", "tools": []}

    @asynccontextmanager
    async def start(**options: Any) -> AsyncIterator[Gym]:
        from responses_api_agents.simple_agent.app import SimpleAgent

        known = OmegaConf.create({"head_server": {"host": "127.0.0.1", "port": 1}})
        monkeypatch.setattr(global_config, "_GLOBAL_CONFIG_DICT", known)
        head = server_utils.ServerClient.load_head_server_config()

        async def begin(kind: Any, group: str, name: str, **more: Any) -> None:
            own = {"entrypoint": "app.py", "host": "127.0.0.1", "port": 1, "name": name, **more}
            client = server_utils.ServerClient(head_server_config=head, global_config_dict=known)
            config = kind.model_fields["config"].annotation.model_validate(own)
            made = kind(config=config, server_client=client)
            app = made.setup_webserver()
            made.setup_exception_middleware(app)
            known[name] = {group: {name: own | await stack.enter_async_context(serving(app))}}

        async with AsyncExitStack() as stack:
            known["model"] = {"responses_api_models": {"model": await stack.enter_async_context(serving(model))}}
            await begin(CodeServer, "resources_servers", "code", **options)
            refers = {
                "resources_server": {"type": "resources_servers", "name": "code"},
                "model_server": {"type": "responses_api_models", "name": "model"},
            }
            await begin(SimpleAgent, "responses_api_agents", "agent", **refers)
            app = server_utils.HeadServer(config=head).setup_webserver()
            # A rollout waits for this one without its event loop.
            url = stack.enter_context(running(app))
            known["head_server"] = {"host": "127.0.0.1", "port": int(url.rpartition(":")[2])}
            # The servers of this process ask with the client of a rollout.
            client = server_utils.set_global_aiohttp_client(server_utils.GlobalAIOHTTPAsyncClientConfig())
            stack.push_async_callback(client.close)
            stack.callback(setattr, server_utils, "_GLOBAL_AIOHTTP_CLIENT", None)
            yield Gym(tmp_path)

    return start


async def test_rollouts_have_the_rewards_of_their_answers(gym: Start) -> None:
    async with gym() as rollouts:
        await rollouts.collect(RIGHT, WRONG)
    assert [row["reward"] for row in rollouts.results] == [1.0, 0.0]
    assert [row["checks_passed"] for row in rollouts.results] == [1.0, 0.5]
    assert rollouts.failures == []


async def test_an_answer_whose_sandbox_is_stopped_is_scored_again(gym: Start) -> None:
    async with gym(sandboxes={"tags": ["again"]}) as rollouts:
        collecting = asyncio.ensure_future(rollouts.collect(SLOW))
        await asyncio.to_thread(stop_sandboxes, "again")
        await collecting
    assert [row["reward"] for row in rollouts.results] == [1.0]


async def test_an_answer_that_has_no_sandbox_is_a_failure_of_the_infrastructure(gym: Start) -> None:
    from aiohttp import ClientResponseError
    from nemo_gym.rollout_collection import RolloutCollectionHelper

    with stopping_sandboxes("lost"):
        async with gym(sandboxes={"tags": ["lost"]}, options={"retries": 0}):
            [rollout] = RolloutCollectionHelper().run_examples([row_of(RIGHT)])
            with pytest.raises(ClientResponseError) as failed:
                await rollout
    # NeMo-RL counts this status as the infrastructure's.
    assert failed.value.status == 500
    assert b"infrastructure: " in vars(failed.value)["response_content"]


async def test_a_number_for_it_is_among_the_failures_and_runs_again(gym: Start) -> None:
    async with gym(sandboxes={"tags": ["numbered"]}, options={"retries": 0}, unscorable=0) as rollouts:
        with stopping_sandboxes("numbered"):
            await rollouts.collect(RIGHT)
        assert rollouts.results == []
        [row] = rollouts.failures
        assert (row["status"], row["_ng_failure_class"]) == ("infrastructure", "transient")
        await rollouts.collect(RIGHT, resume=True)
        assert [row["reward"] for row in rollouts.results] == [1.0]
