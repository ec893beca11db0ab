"""`POST /v1/score` of a real service."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandrl import score
from sandrl.client import AsyncServiceClient, ServiceClient
from sandrl.errors import AuthenticationError, InputError, ServiceError, UsageError
from sandrl.files import raise_descriptor_limit
from sandrl.problems import Completion, load_completions, load_problems
from tests.support.service import TOKEN, RunningService, running_service

INC = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2", "assert f(2) == 3"]}
RIGHT = "```python\ndef f(x):\n    return x + 1\n```"
HALF = "```python\ndef f(x):\n    return 2\n```"
NDJSON = {"Accept": "application/x-ndjson"}


def request(*texts: str, **more: Any) -> dict[str, Any]:
    return {"completions": [{"task_id": "inc", "completion": text} for text in texts], "problems": [INC], **more}


def sleeper(seconds: float, number: int = 0) -> str:
    return f"```python\nimport time\ntime.sleep({seconds})\ndef f(x):  # {number}\n    return x + 1\n```"


def test_results_are_those_of_the_command_line(http: httpx.Client) -> None:
    answer = http.post("/v1/score", json=request(RIGHT, HALF, "no code"))
    assert answer.status_code == 200
    document = answer.json()
    assert [each["reward"] for each in document["results"]] == [1.0, 0.0, 0.0]
    assert [each["status"] for each in document["results"]] == ["passed", "failed", "no_code"]
    assert [each["id"] for each in document["results"]] == ["inc#1", "inc#2", "inc#3"]
    assert document["results"][1]["checks"][1]["status"] == "failed"
    summary = document["summary"]
    assert (summary["n"], summary["scored"], summary["total_reward"]) == (3, 3, 1.0)
    assert document["job_id"].startswith("job-")


def test_options_of_a_request_are_its_own(http: httpx.Client) -> None:
    half = http.post("/v1/score", json=request(HALF, options={"reward": "fraction"})).json()
    assert half["results"][0]["reward"] == 0.5
    assert http.post("/v1/score", json=request(HALF)).json()["results"][0]["reward"] == 0.0
    late = http.post("/v1/score", json=request(sleeper(3), options={"timeout_seconds": 0.5})).json()
    assert late["results"][0]["status"] == "timeout"
    raw = http.post("/v1/score", json=request("def f(x): return x + 1", options={"extract": "raw"})).json()
    assert raw["results"][0]["reward"] == 1.0


def test_problems_come_along_in_any_format(http: httpx.Client) -> None:
    row = {
        "task_id": "HumanEval/0",
        "prompt": "def f(x):\n",
        "entry_point": "f",
        "canonical_solution": "    return x + 1\n",
        "test": "def check(candidate):\n    assert candidate(1) == 2\n",
    }
    completion = {"task_id": "HumanEval/0", "code": "def f(x):\n    return x + 1\n"}
    answer = http.post("/v1/score", json={"completions": [completion], "problems": [row]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["results"][0]["reward"] == 1.0


def test_results_stream_in_order_of_arrival(http: httpx.Client) -> None:
    body = request(sleeper(1.5), RIGHT)
    with http.stream("POST", "/v1/score", json=body, headers=NDJSON) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.iter_lines() if line]
    assert [line["id"] for line in lines[:2]] == ["inc#2", "inc#1"]
    assert lines[2]["summary"]["n"] == 2


@pytest.mark.parametrize(
    ("body", "status", "place"),
    [
        (b"{", 400, "body"),
        (b"[]", 400, "body"),
        (b'{"completions": []}', 422, "completions"),
        (b"{}", 422, "completions"),
        (b'{"completions": [{"task_id": "nope", "code": ""}]}', 422, "completions[0]"),
        (b'{"completions": [{"code": ""}]}', 422, "completions[0]"),
        (b'{"completions": [{"task_id": "inc"}], "problems": []}', 422, "completions[0]"),
        (b'{"completions": [{"task_id": "a", "code": ""}], "problems": [{"task_id": "a"}]}', 422, "problems[0]"),
        (
            b'{"completions": [{"task_id": "a", "code": ""}],'
            b' "problems": [{"task_id": "a", "prompt": "", "tests": ["assert a"], "image": "rootfs:/etc/shadow"}]}',
            422,
            "problems[0].image",
        ),
        (
            b'{"completions": [{"task_id": "a", "code": ""}], "problems": [{"task_id": "a", "task": "/etc"}]}',
            422,
            "problems[0].task",
        ),
        (b'{"completions": [{"task_id": "a", "code": ""}], "wrong": 1}', 422, "wrong"),
        (b'{"completions": [{"task_id": "a", "code": ""}], "options": {"timeout": 1}}', 422, "options.timeout"),
        (b'{"completions": [{"task_id": "a", "code": ""}], "options": {"timeout_seconds": 0}}', 422, "options"),
        (b'{"completions": [{"task_id": "a", "code": ""}], "options": {"reward": "os:system"}}', 422, "options.reward"),
        (b'{"completions": [{"task_id": "a", "code": ""}], "options": {"second_opinion": 1}}', 422, "options"),
        (b'{"completions": [{"task_id": "a", "code": ""}], "options": {"max_output_bytes": 9000000}}', 422, "options."),
        (b'{"completions": [{"task_id": "a", "task_id": "b"}]}', 400, "body"),
    ],
)
def test_what_is_wrong_with_a_request_is_said(http: httpx.Client, body: bytes, status: int, place: str) -> None:
    answer = http.post("/v1/score", content=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["detail"]
    assert document.get("place", "").startswith(place)


def test_without_the_token_nothing_is_scored_or_shown(service: RunningService) -> None:
    with httpx.Client(base_url=service.url, trust_env=False) as stranger:
        answer = stranger.post("/v1/score", json=request(RIGHT))
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert stranger.get("/healthz").json()["status"] == "ok"
        assert stranger.get("/readyz").json() == {"status": "ready"}
        shown = stranger.get("/openapi.json").text
    assert "slow-sum" not in shown
    assert "/v1/score" in shown


def test_the_page_of_the_api_loads_nothing_from_elsewhere(http: httpx.Client) -> None:
    page = http.get("/docs").text
    assert "swagger-ui" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
    answer = http.get("/openapi.json")
    references = re.findall(r'"#/components/schemas/(\w+)"', answer.text)
    assert references
    assert set(references) <= answer.json()["components"]["schemas"].keys()


def test_the_same_key_is_the_same_request(http: httpx.Client) -> None:
    key = {"Idempotency-Key": "once"}
    body = request(f"{RIGHT}\nonce", options={"caching": False})
    first = http.post("/v1/score", json=body, headers=key).json()
    assert http.post("/v1/score", json=body, headers=key).json() == first
    other = http.post("/v1/score", json=request(HALF), headers=key)
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json()["detail"]


def test_a_broken_connection_loses_nothing_with_a_key(http: httpx.Client, service: RunningService) -> None:
    key = {"Idempotency-Key": "broken"}
    body = request(*[sleeper(0.3, number) for number in range(8)], options={"caching": False})
    with (
        service.client() as other,
        other.stream("POST", "/v1/score", json=body, headers=key | NDJSON) as answer,
    ):
        first = json.loads(next(line for line in answer.iter_lines() if line))
    again = http.post("/v1/score", json=body, headers=key).json()
    assert again["summary"]["total_reward"] == 8
    # The very execution whose result was read before the connection broke.
    assert first in again["results"]


def waiting(http: httpx.Client) -> float:
    for line in http.get("/metrics").text.splitlines():
        if line.startswith("sandrl_queue "):
            return float(line.split()[1])
    raise AssertionError("the metric is missing")


def until_waiting(http: httpx.Client, least: float = 0, most: float = 1e9) -> None:
    for _ in range(600):
        if least <= waiting(http) <= most:
            return
        time.sleep(0.05)
    pytest.fail(f"{waiting(http)} completions wait")


@pytest.mark.parametrize("headers", [{}, NDJSON])
def test_what_waits_is_given_up_when_its_client_goes_away(
    http: httpx.Client, service: RunningService, headers: dict[str, str]
) -> None:
    body = json.dumps(request(*[sleeper(1, number) for number in range(300)], options={"caching": False})).encode()
    address = httpx.URL(service.url)
    with socket.create_connection((address.host, address.port)) as connection:
        lines = [
            "POST /v1/score HTTP/1.1",
            f"Host: {address.host}",
            f"Authorization: Bearer {TOKEN}",
            f"Content-Length: {len(body)}",
            *[f"{name}: {value}" for name, value in headers.items()],
        ]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        until_waiting(http, least=100)
    until_waiting(http, most=0)


def test_nothing_of_requests_is_in_the_log(service: RunningService) -> None:
    secret = "a-private-word-of-the-prompt"
    problem = {**INC, "task_id": secret, "prompt": secret}
    with service.client() as http:
        body = {
            "completions": [{"task_id": secret, "code": f"def f(x): return x + 1 # {secret}"}],
            "problems": [problem],
        }
        assert http.post(f"/v1/score?{secret}", json=body).status_code == 200
        http.post(f"/{secret}", json=body)
        http.post(f"/t/{TOKEN}/run_code", json={"code": f"print({secret!r})", "language": "python"})
        http.post(f"/t/{TOKEN}/nothing", json={})
        http.post("/v1/score", content=secret.encode())
        metrics = http.get("/metrics").text
    assert "POST /v1/score 200" in service.said
    for text in (service.said, metrics):
        assert secret not in text
        assert TOKEN not in text


def test_a_thousand_requests_at_once_are_all_answered(service: RunningService) -> None:
    """Each on a connection of its own, which sends its request and waits."""
    raise_descriptor_limit()
    address = httpx.URL(service.url)

    def ask(number: int) -> tuple[int, bool]:
        code = f"def f(x): return x + {1 + number % 2}  # {number}"
        body = json.dumps({"completions": [{"task_id": "inc", "code": code}], "problems": [INC]})
        head = f"POST /v1/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n"
        with socket.create_connection((address.host, address.port), timeout=250) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            started.wait()
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        status = int(answer.split(b" ", 2)[1])
        reward = json.loads(answer.partition(b"\r\n\r\n")[2])["results"][0]["reward"]
        return status, reward == float(number % 2 == 0)

    started = threading.Barrier(1000)
    with ThreadPoolExecutor(1000) as threads:
        found = Counter(threads.map(ask, range(1000)))
    assert found == {(200, True): 1000}


def test_the_metrics_count_what_happened(http: httpx.Client) -> None:
    before = _metrics(http)
    http.post("/v1/score", json=request(RIGHT, HALF, options={"check_timeout_seconds": 7.125}))
    http.post("/v1/execute", json={"code": "print(1)"})
    after = _metrics(http)

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown('sandrl_rewards_total{status="passed"}') == 1
    assert grown('sandrl_rewards_total{status="failed"}') == 1
    assert grown('sandrl_programs_total{status="passed"}') == 1
    assert grown('sandrl_requests_total{route="/v1/score",status="200"}') == 1
    assert after["sandrl_sandboxes_created_total"] >= 1


def _metrics(http: httpx.Client) -> dict[str, float]:
    lines = [line for line in http.get("/metrics").text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_full_queue_is_answered_with_429_and_the_client_comes_again(tmp_path: Path) -> None:
    words = ("--max-queue", "8", "--concurrency", "2")
    with running_service(tmp_path, *words) as service, service.client() as http:
        bodies = [request(*[sleeper(0.3, 8 * n + m) for m in range(8)]) for n in range(6)]
        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(lambda body: http.post("/v1/score", json=body), bodies))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        for answer in refused:
            assert int(answer.headers["retry-after"]) >= 1
            assert "queue is full" in answer.json()["detail"]
        with ServiceClient(service.url, TOKEN) as client, ThreadPoolExecutor(6) as threads:
            reports = threads.map(lambda body: client.score(body["completions"], body["problems"]), bodies)
            assert [report.summary.total_reward for report in reports] == [8.0] * 6


@pytest.mark.parametrize(
    ("path", "field", "meant"),
    [
        ("/v1/score", "responses", "completions"),
        ("/v1/score", "dataset", "problems"),
        ("/v1/score", "timeout_seconds", "options.timeout_seconds"),
        ("/v1/score", "timeout", "options.timeout_seconds"),
        ("/v1/execute", "source", "code"),
        ("/v1/execute", "timeout", "timeout_seconds"),
        ("/v1/execute", "lang", "language"),
    ],
)
def test_an_unknown_field_is_answered_with_the_field(http: httpx.Client, path: str, field: str, meant: str) -> None:
    body = request(sleeper(0, 1)) if path == "/v1/score" else {"code": "pass"}
    answer = http.post(path, json={**body, field: "1"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == f"{field}: there is no field with this name; did you mean {meant!r}?"


def test_the_client_says_what_is_wrong(service: RunningService) -> None:
    with ServiceClient(service.url, TOKEN, patience_seconds=1) as client:
        with pytest.raises(InputError, match="there is no problem 'nope'"):
            client.score([{"task_id": "nope", "code": ""}], [INC])
        with pytest.raises(UsageError, match=r"there is no field with this name$"):
            client.score([{"task_id": "inc", "code": ""}], [INC], options={"wrong": 1})
        with pytest.raises(
            UsageError, match=r"options\.timeout: there is no field .*; did you mean 'timeout_seconds'\?"
        ):
            client.score([{"task_id": "inc", "code": ""}], [INC], options={"timeout": 1})
        assert client.is_ready()
        assert client.execute("print(6 * 7)")["run"]["stdout"] == "42\n"
    with ServiceClient(service.url, "another-token-0123456789") as client, pytest.raises(AuthenticationError):
        client.score([{"task_id": "inc", "code": ""}], [INC])
    with (
        ServiceClient("http://127.0.0.1:9", TOKEN, patience_seconds=0.5) as client,
        pytest.raises(ServiceError, match="does not answer"),
    ):
        client.score([{"task_id": "inc", "code": ""}], [INC])


def test_rows_that_have_the_same_id_each_get_their_own_result(service: RunningService) -> None:
    """What a user calls a row decides nothing; the same id twice, and a number, are usual."""
    wrong = "def f(x): return x"
    rows = [{"task_id": "inc", "completion": RIGHT, "id": "a"}, {"task_id": "inc", "code": wrong, "id": "a"}]
    rows += [{"task_id": "inc", "completion": RIGHT, "id": "7"}, {"task_id": "inc", "code": wrong, "id": 7}]  # type: ignore[dict-item]
    rows += [{"task_id": "inc", "completion": RIGHT}]
    with ServiceClient(service.url, TOKEN) as client:
        for _ in range(3):
            results = client.score(rows, [INC]).results
            assert [result.reward for result in results] == [1.0, 0.0, 1.0, 0.0, 1.0]
            assert [result.id for result in results] == ["a", "a", "7", "7", "inc#4"]
        with pytest.raises(InputError, match=r"completions\[0\]: field 'id'"):
            client.score([{**rows[0], "id": [1]}], [INC])
        with pytest.raises(UsageError, match="timeout_seconds"):
            client.score(rows, [INC], options={"timeout_seconds": float("nan")})


def test_what_is_not_wanted_any_more_is_not_asked(service: RunningService) -> None:
    rows = [{"task_id": "inc", "code": f"def f(x): return x + 1  # {number} unwanted"} for number in range(3000)]
    told: list[int] = []
    with ServiceClient(service.url, TOKEN) as client:
        report = client.begin_scoring(
            rows, [INC], on_result=lambda result: told.append(result.index), wants_more=lambda: not told
        )
        assert len(report.result(120).results) == len(told) < 2000


def test_a_request_that_can_never_have_room_is_split_by_the_client(tmp_path: Path) -> None:
    with running_service(tmp_path, "--max-queue", "50", "--max-body", "100000") as service:
        rows = [{"task_id": "inc", "code": f"def f(x): return x + 1  # {number}"} for number in range(200)]
        with service.client() as http:
            refused = http.post("/v1/score", json={"completions": rows, "problems": [INC]})
            assert refused.status_code == 413
            assert "200 completions, more than the 50 that may wait" in refused.json()["detail"]
        long = [{**row, "code": f"{row['code']}{'x' * 3000}"} for row in rows]
        with ServiceClient(service.url, TOKEN) as client:
            assert client.score(rows, [INC]).summary.total_reward == 200
            report = client.score(long, [INC])
        assert report.summary.total_reward == 200
        assert [result.index for result in report.results] == list(range(200))


def test_identical_completions_keep_no_place_from_others(http: httpx.Client) -> None:
    """Groups of a trainer have many; they wait for one verdict."""
    same = [sleeper(6, 77)] * 64
    quick = [f"```python\ndef f(x):  # quick {number}\n    return x + 1\n```" for number in range(30)]
    with http.stream("POST", "/v1/score", json=request(*same, *quick), headers=NDJSON) as answer:
        *lines, _ = [json.loads(line) for line in answer.iter_lines() if line]
    order = [int(line["id"].partition("#")[2]) for line in lines]
    assert sorted(order[:30]) == list(range(65, 95))


def test_a_head_without_an_end_is_not_collected(service: RunningService) -> None:
    address = httpx.URL(service.url)
    with socket.create_connection((address.host, address.port), timeout=30) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")

        def send_on() -> None:
            for _ in range(1000):
                connection.sendall(b"X-Long: " + b"x" * 100_000 + b"\r\n")
                time.sleep(0.001)

        with pytest.raises(OSError):  # noqa: PT011 - reset, or a broken pipe
            send_on()


def test_a_client_that_leaves_while_it_sends_is_no_error_of_the_service(
    http: httpx.Client, service: RunningService
) -> None:
    address = httpx.URL(service.url)
    with socket.create_connection((address.host, address.port)) as connection:
        head = f"POST /v1/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n"
        connection.sendall(head.encode() + b"{")
    time.sleep(0.5)
    assert http.get("/healthz").status_code == 200
    assert "Traceback" not in service.said
    assert "ClientDisconnect" not in service.said


def test_loaded_completions_and_problems_are_scored_as_they_are(service: RunningService, tmp_path: Path) -> None:
    (tmp_path / "problems.jsonl").write_text(json.dumps(INC) + "\n")
    rows = [{"task_id": "inc", "completion": RIGHT}, {"task_id": "inc", "code": "def f(x): return 2", "id": "mine"}]
    (tmp_path / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    problems = load_problems(tmp_path / "problems.jsonl").problems
    completions = load_completions(tmp_path / "completions.jsonl", task_ids=problems).completions
    local = score(completions, problems).results
    with ServiceClient(service.url, TOKEN) as client:
        for given in (problems, list(problems.values())):
            results = client.score(completions, given).results
            assert [each.reward for each in results] == [each.reward for each in local] == [1.0, 0.0]
            assert [each.id for each in results] == [each.id for each in local] == ["inc#1", "mine"]
        unnamed = client.score([Completion("", "inc", RIGHT)], {"inc": {**INC, "task_id": "another"}})
        assert [(each.id, each.reward) for each in unnamed.results] == [("inc#0", 1.0)]


def test_an_asynchronous_client_takes_objects_too(service: RunningService) -> None:
    async def scored() -> list[float | None]:
        async with AsyncServiceClient(service.url, TOKEN) as client:
            report = await client.score([Completion("", "inc", code="def f(x): return x + 1")], [INC])
            return [each.reward for each in report.results]

    assert asyncio.run(scored()) == [1.0]


def test_what_is_neither_an_object_nor_a_row_is_refused_before_a_request(service: RunningService) -> None:
    neither = "must be a dictionary, or a Problem or Completion of sandrl, not 'inc'"
    with ServiceClient(service.url, TOKEN) as client:
        with pytest.raises(InputError, match=re.escape(f"completions[0]: {neither}")):
            client.score(["inc"], [INC])  # type: ignore[list-item]
        with pytest.raises(InputError, match=re.escape(f"problems[0]: {neither}")):
            client.score([{"task_id": "inc", "code": ""}], ["inc"])  # type: ignore[list-item]
        with pytest.raises(UsageError, match="completions must be a list of completions or of dictionaries"):
            client.score({"task_id": "inc", "code": ""}, [INC])  # type: ignore[dict-item]
        with pytest.raises(UsageError, match="problems must be a list of problems or of dictionaries"):
            client.score([{"task_id": "inc", "code": ""}], "bundled")  # type: ignore[arg-type]
        with pytest.raises(InputError, match=re.escape("completions[0]: field 'loss': cannot be scored: the endpoint")):
            client.score([Completion("", "inc", loss="the endpoint did not answer")], [INC])
