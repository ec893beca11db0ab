"""`/v1/episodes` of a real service: episodes on tasks over HTTP, and the Python client of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import pytest

from sandrl.client import ServiceClient
from sandrl.errors import UsageError
from tests.support.service import TOKEN, RunningService, running_service
from tests.support.tasks.base import import_task_base
from tests.support.tasks.shell import INSTRUCTION, judge, write_shell_task

STEPS = '[[steps]]\nname = "one"\n[steps.agent]\nuser = "app"\n[[steps]]\nname = "two"\n[steps.agent]\nuser = "app"\n'


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with a task of one step, one of two, and a problem that is none."""
    import_task_base(os.environ)
    place = tmp_path_factory.mktemp("tasks")
    write_shell_task(place / "set" / "one-step")
    steps = {
        "instruction.md": None,
        "tests/test.sh": None,
        "steps/one/instruction.md": "First.",
        "steps/one/tests/test.sh": judge("1"),
        "steps/two/instruction.md": "Second.",
        "steps/two/tests/test.sh": judge("2"),
    }
    write_shell_task(place / "set" / "two-steps", environment=STEPS, files=steps)
    words = ("--problems", str(place / "set"), "--problems", "bundled", "--max-episodes", "3", "--episode-idle", "20s")
    with running_service(place, *words) as service:
        yield service


@pytest.fixture
def http(tasks: RunningService, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    # A client of its own in each test.
    with tasks.client(headers={"X-Sandrl-Client": request.node.name}) as client:
        yield client


@pytest.fixture
def client(tasks: RunningService, request: pytest.FixtureRequest) -> Iterator[ServiceClient]:
    with ServiceClient(tasks.url, TOKEN, name=request.node.name) as client:
        yield client


def create(http: httpx.Client, task_id: str = "one-step", **more: Any) -> Any:
    answer = http.post("/v1/episodes", json={"task_id": task_id, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def act(http: httpx.Client, episode: Any, command: str, **more: Any) -> Any:
    body = {"name": "bash", "arguments": {"command": command}, **more}
    answer = http.post(f"/v1/episodes/{episode['id']}/act", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def finish(http: httpx.Client, episode: Any) -> Any:
    answer = http.post(f"/v1/episodes/{episode['id']}/finish")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_episode_from_its_beginning_to_its_verdict(http: httpx.Client) -> None:
    episode = create(http)
    assert (episode["instruction"], episode["step"], episode["steps"]) == (INSTRUCTION, 1, 1)
    assert [tool["name"] for tool in episode["tools"]] == ["bash", "terminal", "write_file", "edit_file", "submit"]
    told = act(http, episode, "id -un; echo done > answer")
    assert told == {"number": 1, "observation": "app", "tool_calls": 1, "end": None}
    assert http.get(f"/v1/episodes/{episode['id']}").json()["status"] == "acting"
    ended = finish(http, episode)
    assert (ended["status"], ended["end"], ended["result"]["reward"]) == ("finished", "submitted", 1.0)
    assert ended["result"]["trust"] == "shared"
    assert finish(http, episode) == ended
    assert act(http, episode, "ls")["observation"] == "error: a solution was submitted before"


def test_the_tool_that_submits_ends_it_too(http: httpx.Client) -> None:
    episode = create(http, max_tool_calls=5)
    answer = http.post(f"/v1/episodes/{episode['id']}/act", json={"name": "submit"}).json()
    assert (answer["observation"], answer["end"]) == ("Submitted.", "submitted")
    assert finish(http, episode)["result"]["reward"] == 0.0


def test_a_call_that_is_sent_again_is_made_once(http: httpx.Client) -> None:
    episode = create(http)
    once = [act(http, episode, "echo x >> log; wc -l < log", number=1) for _ in range(3)]
    assert [each["observation"].strip() for each in once] == ["1"] * 3
    with ThreadPoolExecutor(3) as pool:
        both = list(pool.map(lambda _: act(http, episode, "echo x >> log; wc -l < log", number=2), range(3)))
    assert [each["observation"].strip() for each in both] == ["2"] * 3
    body = {"name": "bash", "arguments": {"command": "ls"}, "number": 4}
    refused = http.post(f"/v1/episodes/{episode['id']}/act", json=body)
    assert refused.status_code == 409
    assert "the next call of the episode is 3" in refused.json()["detail"]
    http.delete(f"/v1/episodes/{episode['id']}")


def test_steps_come_one_after_the_other(client: ServiceClient) -> None:
    with client.begin_episode("two-steps") as episode:
        assert episode.instruction == "First."
        episode.call("bash", {"command": "echo 1 > answer"})
        assert episode.finish() is None
        assert episode.instruction == "Second."
        assert episode.call("bash", {"command": "cat answer; echo 2 > answer"}) == "1"
        result = episode.finish()
        assert result is not None
        assert (result.reward, episode.result) == (1.0, result)


def test_the_answer_to_a_submission_has_the_next_instruction(client: ServiceClient) -> None:
    with client.begin_episode("two-steps") as episode:
        assert episode.call("submit") == "Submitted. The next instruction:\n\nSecond."
        assert episode.call("submit") == "Submitted."
        result = episode.finish()
        assert result is not None
        assert result.reward == 0.0


def test_answers_to_tasks_are_scored_by_the_names_of_the_tasks(client: ServiceClient, tasks: RunningService) -> None:
    rows = [{"task_id": "one-step", "completion": f"```bash\necho {word} > answer\n```"} for word in ("done", "half")]
    assert [result.reward for result in client.score(rows).results] == [1.0, 0.0]
    place = tasks.log.parent
    (place / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "sandrl", "reward", "answers.jsonl", "--problems", "set", "--service", tasks.url]
    environment = {**os.environ, "SANDRL_SERVICE_TOKEN": TOKEN}
    done = subprocess.run(
        [*command, "--json"], cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [each["reward"] for each in json.loads(done.stdout)["results"]] == [1.0, 0.0]


@pytest.mark.parametrize("path", ["score", "episodes"])
def test_options_without_an_effect_on_tasks_are_refused(http: httpx.Client, path: str) -> None:
    rows = [{"task_id": "one-step", "completion": "x"}]
    asked = {"completions": rows} if path == "score" else {"task_id": "one-step"}
    refused = http.post(f"/v1/{path}", json={**asked, "options": {"compile_timeout_seconds": 3}})
    assert (refused.status_code, refused.json()["place"]) == (422, "options.compile_timeout_seconds")
    assert "all problems are tasks" in refused.json()["detail"]


def test_a_creation_that_is_sent_again_is_the_same_episode(http: httpx.Client) -> None:
    headers = {"Idempotency-Key": "k"}
    ids = {http.post("/v1/episodes", json={"task_id": "one-step"}, headers=headers).json()["id"] for _ in range(3)}
    assert len(ids) == 1
    assert [each["id"] for each in http.get("/v1/episodes").json()["episodes"]] == list(ids)
    assert http.delete(f"/v1/episodes/{ids.pop()}").status_code == 204
    assert http.get("/v1/episodes").json() == {"episodes": []}


def test_a_client_has_only_so_many_episodes_at_once(http: httpx.Client, tasks: RunningService) -> None:
    made = [create(http) for _ in range(3)]
    refused = http.post("/v1/episodes", json={"task_id": "one-step"})
    assert refused.status_code == 429
    assert "Retry-After" in refused.headers
    with tasks.client(headers={"X-Sandrl-Client": "other"}) as other:
        other.delete(f"/v1/episodes/{create(other)['id']}")
    finish(http, made[0])
    made.append(create(http))
    for episode in made:
        http.delete(f"/v1/episodes/{episode['id']}")


def test_a_deleted_episode_answers_who_waits(http: httpx.Client) -> None:
    episode = create(http)
    act(http, episode, "true")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(act, http, episode, "sleep 5")
        time.sleep(1)
        assert http.delete(f"/v1/episodes/{episode['id']}").status_code == 204
        assert waiting.result(30)["observation"]
    assert http.get(f"/v1/episodes/{episode['id']}").status_code == 404


def test_a_service_that_stops_gives_open_episodes_up(tasks: RunningService) -> None:
    place = tasks.log.parent
    with running_service(place, "--problems", str(place / "set"), "--drain", "1s") as service:
        with service.client() as http, ThreadPoolExecutor(1) as pool:
            episode = create(http)
            act(http, episode, "true")
            waiting = pool.submit(act, http, episode, "sleep 600")
            time.sleep(1)
            assert service.stop() == 143
            with suppress(httpx.HTTPError):
                assert waiting.result(30)["observation"]
        assert "1 unfinished requests were given up" in service.said


@pytest.mark.slow
def test_an_episode_that_nobody_calls_ends_without_a_reward(http: httpx.Client) -> None:
    episode = create(http)
    act(http, episode, "true")
    time.sleep(22)
    ended = finish(http, episode)
    assert (ended["end"], ended["result"]["reward"]) == ("lost", None)
    assert ended["result"]["detail"] == "there was no call for 20 s"


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"task_id": "none"}, 422, "there is no problem 'none'"),
        ({"task_id": "inc"}, 422, "there is no problem 'inc'"),
        ({}, 422, "task_id: Field required"),
        ({"task_id": "one-step", "max_tool_calls": 0}, 422, "max_tool_calls"),
        ({"task_id": "one-step", "options": {"rewards": 1}}, 422, "options.rewards"),
    ],
)
def test_what_cannot_be_had_is_refused(http: httpx.Client, body: Any, status: int, told: str) -> None:
    refused = http.post("/v1/episodes", json=body)
    assert refused.status_code == status
    assert told in refused.json()["detail"]


def test_a_problem_that_is_no_task_has_no_machine(http: httpx.Client, client: ServiceClient) -> None:
    from sandrl.problems import demo_problems

    name = next(iter(demo_problems()))
    with pytest.raises(UsageError, match="is not a task, so there is no machine to work in"):
        client.begin_episode(name)


def test_every_route_needs_the_token(tasks: RunningService) -> None:
    with httpx.Client(base_url=tasks.url, trust_env=False) as http:
        for method, path in (("POST", ""), ("GET", ""), ("GET", "/x"), ("POST", "/x/act"), ("POST", "/x/finish")):
            assert http.request(method, f"/v1/episodes{path}", json={}).status_code == 401
        assert http.delete("/v1/episodes/x").status_code == 401


def test_an_unknown_episode_is_not_found(http: httpx.Client) -> None:
    for method, path in (("GET", ""), ("POST", "/finish"), ("DELETE", "")):
        assert http.request(method, f"/v1/episodes/ep-none{path}").status_code == 404
    assert http.post("/v1/episodes/ep-none/act", json={"name": "bash"}).status_code == 404
