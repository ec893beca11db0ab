"""Who gets through to a service, with which body, and what is logged of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import pytest

from sandrl.errors import InputError
from sandrl.service.edge import Edge, Message, Receive, Scope, Send
from sandrl.service.metrics import ServiceMetrics
from sandrl.service.tokens import Token

SECRET = "s3cret-token-0123456789"


class Asked:
    def __init__(self, app: Any, **options: Any) -> None:
        self.log: list[str] = []
        self.metrics = ServiceMetrics(lambda: 0.0, lambda: 0.0)
        self.edge = Edge(
            app,
            Token(SECRET, "a file"),
            **{"max_body_bytes": 100, "is_logging": True, **options},
            metrics=self.metrics,
            log=self.log.append,
        )
        self.sent: list[Message] = []

    async def ask(
        self, path: str, *, token: str | None = SECRET, body: Iterable[bytes] = (b"",), length: int | None = None
    ) -> int:
        headers = [] if token is None else [(b"Authorization", f"Bearer {token}".encode())]
        headers += [] if length is None else [(b"content-length", str(length).encode())]
        scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"token=" + SECRET.encode(),
            "headers": headers,
        }
        blocks = list(body)

        async def receive() -> Message:
            if not blocks:
                await asyncio.sleep(60)
            block = blocks.pop(0)
            return {"type": "http.request", "body": block, "more_body": bool(blocks)}

        async def send(message: Message) -> None:
            self.sent.append(message)

        self.scope = scope
        await self.edge(scope, receive, send)
        return int(self.sent[0]["status"])

    @property
    def document(self) -> dict[str, Any]:
        assert dict(self.sent[0]["headers"])[b"content-type"] == b"application/problem+json"
        found: dict[str, Any] = json.loads(self.sent[1]["body"])
        return found


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize("path", ["/v1/score", "/run_code", "/metrics", "/", "/nothing", "/t", "/healthz/../metrics"])
async def test_nothing_is_answered_without_the_token(path: str) -> None:
    for token in (None, "", "wrong", SECRET[:-1], SECRET + "x"):
        asked = Asked(reads)
        assert await asked.ask(path, token=token) == 401
        assert SECRET not in str(asked.sent)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/docs", "/openapi.json", "/static-offline-docs/x.js"])
async def test_what_is_no_users_is_open(path: str) -> None:
    assert await Asked(reads).ask(path, token=None) == 200


@pytest.mark.parametrize("path", ["/run_code", "/get_reward"])
async def test_a_token_in_the_path_authorises_routes_whose_clients_send_no_headers(path: str) -> None:
    asked = Asked(reads)
    assert await asked.ask(f"/t/{SECRET}{path}", token=None) == 200
    assert asked.scope["path"] == path
    assert asked.scope["raw_path"] == path.encode()
    assert await Asked(reads).ask(f"/t/wrong{path}") == 401, "even with a right header"


@pytest.mark.parametrize("path", ["/v1/score", "/v1/execute", "/metrics", "/run_code/", "/t/x/run_code"])
async def test_a_token_in_the_path_authorises_nothing_else(path: str) -> None:
    for token in (None, SECRET):
        assert await Asked(reads).ask(f"/t/{SECRET}{path}", token=token) == 403


@pytest.mark.parametrize("path", [f"/t/{SECRET}/run_code", f"/t/{SECRET}/nothing", "/v1/score", f"/{SECRET}"])
async def test_the_token_is_gone_from_all_that_an_application_sees_and_the_log_shows(path: str) -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError(f"this happened: {scope}")

    asked = Asked(fails)
    await asked.ask(path)
    seen = {name: value for name, value in asked.scope.items() if path != f"/{SECRET}" or "path" not in name}
    for text in (str(seen), "".join(asked.log), str(asked.sent), asked.metrics.text().decode()):
        assert SECRET not in text


async def test_an_error_that_nobody_has_foreseen_is_logged_by_its_place_and_never_by_its_message() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError(" ".join(["what", "a", "user", "sent"]))

    asked = Asked(fails)
    assert await asked.ask("/v1/score") == 500
    assert "ValueError" in asked.document["detail"]
    log = "".join(asked.log)
    assert "in fails" in log
    assert "what a user sent" not in log + str(asked.sent)


async def test_an_error_of_sandrl_is_answered_in_its_words() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise InputError("is missing", path="completions[3]", field="task_id", hint="give it one")

    asked = Asked(fails)
    assert await asked.ask("/v1/score") == 422
    assert asked.document == {
        "type": "about:blank",
        "title": HTTPStatus.UNPROCESSABLE_ENTITY.phrase,  # another one from Python 3.13 on
        "status": 422,
        "detail": "completions[3]: field 'task_id': is missing",
        "hint": "give it one",
        "place": "completions[3].task_id",
    }


async def test_a_body_that_is_said_to_be_too_large_is_never_read() -> None:
    async def must_not_run(scope: Scope, receive: Receive, send: Send) -> None:
        pytest.fail("the application was called")

    asked = Asked(must_not_run)
    assert await asked.ask("/v1/score", length=101) == 413
    assert "100 bytes" in asked.document["detail"]


async def test_a_body_that_becomes_too_large_or_does_not_come_is_refused() -> None:
    assert await Asked(reads).ask("/v1/score", body=[b"x" * 60, b"x" * 60]) == 413
    assert await Asked(reads).ask("/v1/score", body=[b"x" * 60, b"x" * 40]) == 200
    assert await Asked(reads, body_seconds=0.05).ask("/v1/score", body=()) == 408


async def test_a_web_socket_is_closed() -> None:
    asked = Asked(reads)

    async def send(message: Message) -> None:
        asked.sent.append(message)

    await asked.edge({"type": "websocket", "path": "/", "headers": []}, lambda: asyncio.sleep(0, {}), send)
    assert asked.sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_line_of_the_log_has_method_route_and_status_alone() -> None:
    asked = Asked(reads)
    await asked.ask("/v1/score?task_id=private")
    assert len(asked.log) == 1
    method, route, status, *_ = asked.log[0].split(" ")
    assert (method, route, status) == ("POST", "-", "200")
