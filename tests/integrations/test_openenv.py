"""The environment of OpenEnv, served over HTTP and played by its own client."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandrl.errors import InputError
from sandrl.integrations import openenv as adapter
from tests.integrations.running import running
from tests.support.stopping import kill_with_sandboxes, stop_sandboxes, stopping_sandboxes

pytestmark = pytest.mark.needs("openenv")

RIGHT, WRONG = "<answer>def f(x): return x + 1</answer>", "<answer>def f(x): return 2 * x</answer>"
SLOW = RIGHT.replace("<answer>", "<answer>import time\ntime.sleep(3)\n")


@pytest.fixture
def address(place: str | None, problem_file: str) -> Iterator[str]:
    with running(adapter.create_app(problem_file, service=place, reward="fraction")) as address:
        yield address


async def test_an_episode_shows_a_problem_and_ends_with_the_answers_reward(address: str) -> None:
    from openenv import GenericEnvClient

    async with GenericEnvClient(base_url=address) as client:
        shown = await client.reset(task_id="inc", episode_id="one")
        assert (shown.reward, shown.done) == (None, False)
        assert [message["role"] for message in shown.observation["messages"]] == ["system", "user"]
        assert "Add one" in shown.observation["messages"][1]["content"]
        ended = await client.step({"completion": WRONG})
        assert (ended.reward, ended.done) == (0.5, True)
        assert {name: ended.observation[name] for name in ("status", "checks_passed", "checks_total")} == {
            "status": "failed",
            "checks_passed": 1,
            "checks_total": 2,
        }
        assert await client.state() == {"episode_id": "one", "step_count": 1, "task_id": "inc"}
        with pytest.raises(RuntimeError, match="call reset first"):
            await client.step({"completion": RIGHT})


async def test_episodes_at_the_same_time_have_problems_of_their_own(address: str) -> None:
    from openenv import GenericEnvClient

    async def play(number: int) -> float | None:
        async with GenericEnvClient(base_url=address) as client:
            await client.reset(task_id="inc")
            reward: float | None = (
                await client.step({"completion": f"{RIGHT if number % 2 else 'no'} {number}"})
            ).reward
            return reward

    assert await asyncio.gather(*map(play, range(12))) == [0.0, 1.0] * 6


async def test_a_seed_decides_which_problem_is_shown(address: str) -> None:
    from openenv import GenericEnvClient

    async with GenericEnvClient(base_url=address) as client:
        names = [(await client.reset(seed=seed)).observation["task_id"] for seed in (*range(20), *range(20))]
    assert names[:20] == names[20:]
    assert set(names) == {"inc", "broken"}


async def test_what_cannot_be_scored_has_no_reward(address: str) -> None:
    from openenv import GenericEnvClient

    async with GenericEnvClient(base_url=address) as client:
        await client.reset(task_id="broken")
        ended = await client.step({"completion": "<answer>def f(x): return None</answer>"})
    assert (ended.reward, ended.done, ended.observation["status"]) == (None, True, "invalid_problem")


def test_a_single_request_names_its_problem(address: str) -> None:
    body = json.dumps({"action": {"completion": RIGHT}, "task_id": "inc"}).encode()
    asked = urllib.request.Request(f"{address}/step", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        document = json.load(answer)
    assert (document["reward"], document["done"]) == (1.0, True)


def test_the_environment_is_used_without_a_server_too(place: str | None, problem_file: str) -> None:
    env = adapter.CodeEnvironment(problem_file, service=place)
    env.reset(task_id="inc")
    assert env.step(adapter.CodeAction(completion=RIGHT)).reward == 1.0
    with pytest.raises(InputError, match="there is no problem 'other'"):
        env.reset(task_id="other")


async def test_a_step_whose_sandbox_is_stopped_is_scored_again_and_one_without_sandboxes_has_no_reward(
    problem_file: str,
) -> None:
    from openenv import GenericEnvClient

    app = adapter.create_app(problem_file, sandboxes={"tags": ["openenv"]}, retries=1)
    with running(app) as address:
        async with GenericEnvClient(base_url=address) as client:
            await client.reset(task_id="inc")
            step = asyncio.ensure_future(client.step({"completion": SLOW}))
            await asyncio.to_thread(stop_sandboxes, "openenv")
            assert (await step).reward == 1.0
            await client.reset(task_id="inc")
            with stopping_sandboxes("openenv"):
                ended = await client.step({"completion": RIGHT + " "})
    assert (ended.reward, ended.done, ended.observation["status"]) == (None, True, "infrastructure")


def test_what_a_killed_server_leaves_is_seen_and_ended(problem_file: str, tmp_path: Path) -> None:
    program = (
        "import sys, uvicorn\nfrom sandrl.integrations.openenv import create_app\n"
        "app = create_app(sys.argv[1], sandboxes={'tags': ['killed']})\nuvicorn.run(app, port=int(sys.argv[2]))\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    body = json.dumps({"action": {"completion": SLOW.replace("sleep(3)", "sleep(60)")}, "task_id": "inc"}).encode()
    step = urllib.request.Request(f"http://127.0.0.1:{port}/step", body, {"Content-Type": "application/json"})
    with subprocess.Popen([sys.executable, "-c", program, problem_file, str(port)], cwd=tmp_path) as server:
        until = time.monotonic() + 60
        while not is_open(port):
            assert time.monotonic() < until
            time.sleep(0.1)
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(urllib.request.urlopen, step, timeout=60)
            kill_with_sandboxes(server, "killed")
            assert asked.exception() is not None


def is_open(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0
