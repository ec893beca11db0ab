"""An OpenAI-compatible server that answers by a script: real HTTP, real JSON, no model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = Callable[[dict[str, Any]], "str | int"]
"""From a request's body to the text of the answer, or to the HTTP status to fail with."""


class ChatServer:
    """Serves `/v1/models` and `/v1/chat/completions` on this machine, between the two ends of a `with` block.

    Args:
        answer: What it answers.
        models: What models it says it has.
        key: What key it asks for; None for none.

    Attributes:
        requests: The bodies of the requests for completions.
        base_url: Its address.
    """

    def __init__(self, answer: Answer, *, models: Sequence[str] = ("scripted",), key: str | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answer, self._key = answer, key
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if outer._admits(self):
                    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in models]
                    outer._reply(self, 200, {"object": "list", "data": listed})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if outer._admits(self):
                    outer.requests.append(body)
                    outer._complete(self, body)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _admits(self, handler: BaseHTTPRequestHandler) -> bool:
        if self._key is None or handler.headers.get("Authorization") == f"Bearer {self._key}":
            return True
        self._reply(handler, 401, {"error": {"message": "no such key", "type": "authentication_error"}})
        return False

    def _complete(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        answer = self._answer(body)
        if isinstance(answer, int):
            self._reply(handler, answer, {"error": {"message": f"scripted {answer}", "type": "scripted"}})
            return
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        document = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}
        self._reply(handler, 200, {**document, "usage": usage})

    def _reply(self, handler: BaseHTTPRequestHandler, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        if status == 429:
            handler.send_header("Retry-After", "0.01")
        handler.end_headers()
        handler.wfile.write(content)
