"""How a service ends, and what that does to its clients and its sandboxes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandrl.client import ServiceClient
from sandrl.runtime import daemon
from tests.support.service import TOKEN, RunningService, running_service

INC = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[dict[str, str]]:
    yield {"SANDRL_STATE_DIR": str(tmp_path / "state")}
    daemon.stop(tmp_path / "state")


def rows(count: int, seconds: float) -> list[dict[str, Any]]:
    code = "import time\ntime.sleep({})\ndef f(x): return x + {}  # {}"
    return [
        {"task_id": "inc", "code": code.format(seconds, 2 if number % 3 == 0 else 1, number)} for number in range(count)
    ]


def rewards(count: int) -> list[float]:
    return [0.0 if number % 3 == 0 else 1.0 for number in range(count)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_loses_nothing_that_was_accepted(tmp_path: Path, number: signal.Signals) -> None:
    with running_service(tmp_path, "--concurrency", "4") as service, ThreadPoolExecutor(8) as threads:
        with service.client() as http:
            options = {"caching": False}
            bodies = [{"completions": rows(12, 0.3), "problems": [INC], "options": options} for _ in range(4)]
            asked = [threads.submit(http.post, "/v1/score", json=body) for body in bodies]
            asked += [threads.submit(http.post, "/run_code", json={"code": "print(1)", "language": "python"})]
            time.sleep(0.7)
            service.process.send_signal(number)
            time.sleep(0.5)
            refused = http.post("/v1/score", json=bodies[0])
            assert refused.status_code == 503
            assert "retry-after" in refused.headers
            assert http.get("/readyz").status_code == 503
            for answer in asked[:4]:
                assert [each["reward"] for each in answer.result().json()["results"]] == rewards(12)
            assert asked[4].result().json()["status"] == "Success"
        assert service.process.wait(60) == 0
    assert "stopping: finishing" in service.said


def test_the_bound_on_the_end_holds_and_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    for words, signals in ((("--drain", "1"), 1), ((), 2)):
        with running_service(tmp_path, *words, "--concurrency", "2") as service, service.client() as http:
            body = {"completions": rows(20, 5), "problems": [INC]}
            answers: list[Any] = []
            thread = threading.Thread(target=lambda: answers.append(http.post("/v1/score", json=body)))  # noqa: B023
            thread.start()
            time.sleep(1)
            for _ in range(signals):
                service.process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
            assert service.process.wait(40) == 128 + signal.SIGTERM
            thread.join(10)
            assert [answer.status_code for answer in answers] == [503]
            assert "were given up" in service.said


def test_a_killed_service_costs_its_clients_time_and_no_result(tmp_path: Path, state: dict[str, str]) -> None:
    """The client asks again until there is a service at the same address; nothing is scored wrongly."""
    words = ("--concurrency", "4")
    count = 120
    with running_service(tmp_path, *words, environment=state) as first:
        port = httpx.URL(first.url).port
        with ServiceClient(first.url, TOKEN, patience_seconds=120) as client:
            told: list[int] = []
            report = client.begin_scoring(rows(count, 0.1), [INC], on_result=lambda result: told.append(result.index))
            while len(told) < 10:
                time.sleep(0.05)
            first.stop(signal.SIGKILL)
            orphans = listed(state, "--orphans")
            assert orphans
            with running_again(tmp_path, port, state):
                assert [result.reward for result in report.result(120).results] == rewards(count)
            assert sorted(told) == list(range(count)), "each result is told once"
    cleaned = command(state, "sandboxes", "cleanup", "--orphans", "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert listed(state) == []


def test_sandboxes_of_e2b_of_a_killed_service_are_seen_cleaned_up_and_gone_for_their_clients(
    tmp_path: Path, state: dict[str, str]
) -> None:
    e2b = pytest.importorskip("e2b", reason="not installed: e2b (make test)")

    def addresses(service: RunningService) -> dict[str, str]:
        return {"api_url": service.url, "sandbox_url": service.url, "api_key": TOKEN}

    with running_service(tmp_path, environment=state) as first:
        sandbox = e2b.Sandbox.create(timeout=600, **addresses(first))
        port = httpx.URL(first.url).port
        first.stop(signal.SIGKILL)
    assert [each["id"] for each in listed(state, "--orphans", "--tag", "e2b")] == [sandbox.sandbox_id]
    with running_again(tmp_path, port, state) as second:
        assert not sandbox.is_running()
        with pytest.raises(e2b.SandboxException):
            sandbox.commands.run("true")
        assert e2b.Sandbox.list(**addresses(second)).next_items() == []
        cleaned = command(state, "sandboxes", "cleanup", "--orphans", "--tag", "e2b", "--yes")
        assert cleaned.returncode == 0, cleaned.stderr
        assert listed(state, "--tag", "e2b") == []


def running_again(tmp_path: Path, port: int | None, state: dict[str, str]) -> Any:
    return running_service(tmp_path, "--port", str(port), "--concurrency", "4", environment=state)


def command(state: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandrl", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **state},
        timeout=60,
        check=False,
    )


def listed(state: dict[str, str], *words: str) -> list[Any]:
    done = command(state, "sandboxes", "ls", "--json", *words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return list(found["sandboxes"] if isinstance(found, dict) else found)


def test_a_service_leaves_no_sandbox_and_no_token(tmp_path: Path, state: dict[str, str]) -> None:
    environment = {**state, "SANDRL_SERVICE_TOKEN": ""}
    with running_service(tmp_path, environment=environment) as service:
        place = Path(service.token_place)
        assert place.stat().st_mode & 0o777 == 0o600
        with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
            headers = {"Authorization": f"Bearer {place.read_text()}"}
            assert http.post("/v1/execute", json={"code": "print(1)"}, headers=headers).status_code == 200
        assert listed(state)
        assert service.stop() == 0
    assert not place.exists()
    assert listed(state) == []


def test_two_services_at_once_do_not_share_a_port(service: RunningService) -> None:
    port = str(httpx.URL(service.url).port)
    done = subprocess.run(
        [sys.executable, "-m", "sandrl", "serve", "--port", port],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "SANDRL_SERVICE_TOKEN": TOKEN},
    )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "--port" in done.stderr
