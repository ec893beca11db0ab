"""An OpenAI-compatible server whose answers are a script: the real HTTP protocol, without a model behind it.

What it answers is decided by a function of the question, so that a test says what a model would say, word by word, or
which fault the server has instead: a status, a pause, a cut answer, bytes that are no JSON.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

MODEL = "scripted"


@dataclass(frozen=True)
class Says:
    """The model says something, and may call tools: pairs of a name and its arguments, as a dict or as written.

    Its answer may be cut off at a limit (`finish_reason`), and have further fields beside the text (`beside`), such as
    reasoning.
    """

    text: str | None = ""
    calls: Sequence[tuple[str, object]] = ()
    ids: Sequence[str] | None = None
    logprobs: bool = True
    finish_reason: str | None = "stop"
    beside: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Fault:
    """The server fails: with a status, after a pause, with bytes that end too early, or with a broken connection."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    pause_seconds: float = 0.0
    cut: bool = False
    raw: bytes | None = None
    reset: bool = False


Answer = Says | Fault
Script = Callable[["Question"], Answer]


@dataclass(frozen=True)
class Question:
    """A request: its path, headers and body, and how many came before it."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    number: int

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages") or self.body.get("input") or ())

    @property
    def turn(self) -> int:
        """How many answers the conversation has already."""
        return sum(each.get("role") == "assistant" or each.get("type") == "function_call" for each in self.messages)


class ScriptedModel:
    """The server, between the two ends of a `with` block.

    Args:
        script: What it answers: a function of the question, or answers in order, of which the last stays.
        models: What models it says it has: names, or whole entries; None for a server that has no such list.
        key: What key it asks for; None for none.
    """

    def __init__(
        self,
        script: Script | Sequence[Answer],
        *,
        models: Sequence[str | Mapping[str, object]] | None = (MODEL,),
        key: str | None = None,
    ) -> None:
        self.questions: list[Question] = []
        answers = None if callable(script) else list(script)
        self._script: Script = script if callable(script) else lambda question: _nth(answers, question.number)
        self._models = models
        self._key = key
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Answer:
        with self._lock:
            question = Question(path, headers, body, len(self.questions))
            self.questions.append(question)
        return self._script(question)

    def chat_document(self, answer: Says) -> dict[str, Any]:
        return chat_document(answer)

    def admits(self, headers: Mapping[str, str]) -> bool:
        return self._key is None or headers.get("Authorization") == f"Bearer {self._key}"

    def found(self, path: str) -> object:
        """The document at a path, a fault, or None."""
        return self.listed() if path == "/v1/models" else None

    def listed(self) -> dict[str, Any] | None:
        models = self._models
        return (
            None
            if models is None
            else {"object": "list", "data": [{"id": each} if isinstance(each, str) else each for each in models]}
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is no news."""


def _nth(answers: list[Answer] | None, number: int) -> Answer:
    assert answers is not None
    return answers[min(number, len(answers) - 1)]


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

        def do_GET(self) -> None:
            if not self._is_admitted():
                return
            found = model.found(self.path)
            if isinstance(found, Fault):
                self._fail(found)
            else:
                self._send(404 if found is None else 200, json.dumps(found or {"detail": "Not Found"}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not self._is_admitted():
                return
            answer = model.answer(self.path, dict(self.headers), body)
            if isinstance(answer, Fault):
                self._fail(answer)
            elif self.path == "/v1/completions":
                self._send(200, json.dumps(text_document(answer)).encode())
            elif self.path.endswith("/responses"):
                self._send(200, json.dumps(responses_document(answer)).encode())
            else:
                self._send(200, json.dumps(model.chat_document(answer)).encode())

        def _is_admitted(self) -> bool:
            if model.admits(dict(self.headers)):
                return True
            self._send(401, b'{"error": {"message": "no such key", "type": "authentication_error"}}')
            return False

        def _fail(self, fault: Fault) -> None:
            time.sleep(fault.pause_seconds)
            if fault.reset:
                # Without lingering, closing sends a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
                return
            if fault.cut:
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"choices": [{"message": {"content": "half an ans')
                self.close_connection = True
                return
            body = fault.raw if fault.raw is not None else json.dumps(fault.body or {"error": {}}).encode()
            self._send(fault.status, body, fault.headers)

        def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def chat_document(answer: Says) -> dict[str, Any]:
    """An answer as chat completions write it."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, **answer.beside}
    if answer.calls:
        message["tool_calls"] = [
            {"id": _id(answer, at), "type": "function", "function": {"name": name, "arguments": _written(arguments)}}
            for at, (name, arguments) in enumerate(answer.calls)
        ]
    tokens = (answer.text or "").split() or ["<tool>"]
    logprobs = {"content": [{"token": token, "logprob": -0.5} for token in tokens]} if answer.logprobs else None
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason, "logprobs": logprobs}],
        "usage": {"prompt_tokens": 10, "completion_tokens": len(tokens), "total_tokens": 10 + len(tokens)},
    }


def text_document(answer: Says) -> dict[str, Any]:
    """An answer as completions of texts have it."""
    document = chat_document(answer)
    choice = {"index": 0, "text": answer.text, "finish_reason": answer.finish_reason, "logprobs": None}
    return {**document, "object": "text_completion", "choices": [choice]}


def responses_document(answer: Says) -> dict[str, Any]:
    """An answer as the Responses API writes it."""
    output: list[dict[str, Any]] = [{"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed", "summary": []}]
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        output.append({"type": "message", "role": "assistant", "content": content})
    output += [
        {"type": "function_call", "call_id": _id(answer, at), "name": name, "arguments": _written(arguments)}
        for at, (name, arguments) in enumerate(answer.calls)
    ]
    usage = {"input_tokens": 10, "output_tokens": 3}
    return {"id": "resp_1", "object": "response", "status": "completed", "output": output, "usage": usage}


def _id(answer: Says, at: int) -> str:
    return answer.ids[at] if answer.ids is not None else f"call_{at}"


def _written(arguments: object) -> object:
    return json.dumps(arguments) if isinstance(arguments, dict) else arguments
