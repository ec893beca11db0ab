"""The edge of a service: authorisation, the limits on the size and the duration of requests, and the access log.

This is the outermost layer, so no layer behind it can log a value that is removed here: a token in a path is removed
before the request has a route. A line of the log has only the method and the route of a request, and no text from the
client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, TypeAlias

from starlette.requests import ClientDisconnect

from sandrl.errors import SandrlError
from sandrl.service.e2b.connect import PlainFailure
from sandrl.service.e2b.routes import KEY_HEADER, is_api, is_envd
from sandrl.service.failures import Failure, failure_of, where_it_happened
from sandrl.service.metrics import ServiceMetrics
from sandrl.service.tokens import Token

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/healthz", "/readyz", "/docs", "/openapi.json")
"""Routes without a token: their answers contain no data of a user."""

OPEN_FOLDER = "/static-offline-docs/"

TOKEN_IN_PATH = ("/run_code", "/get_reward")
"""Routes for clients without headers: the token may precede them in the path, and authorises only these routes."""

BODY_SECONDS = 60.0
"""How long a client may take to send a body of a megabyte; larger bodies have more time."""

_TOKEN_PREFIX = "/t/"
_BYTES_PER_SECOND = 64 << 10


class Edge:
    """Lets requests through to an application.

    Args:
        log: Told a line for each request, if they are to be logged, and where unforeseen errors happened.
        body_seconds: How long a client may take to send a body of a megabyte.
    """

    def __init__(
        self,
        app: Application,
        token: Token,
        *,
        max_body_bytes: int,
        metrics: ServiceMetrics,
        log: Callable[[str], None],
        is_logging: bool = False,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._app = app
        self._token = token
        self._max_body_bytes = max_body_bytes
        self._metrics = metrics
        self._log = log
        self._is_logging = is_logging
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, self._limited(scope, receive), noting)
        except ClientDisconnect:
            pass  # nobody reads an answer
        except Exception as error:  # noqa: BLE001 - every error is answered, and none is told with what a user sent
            if not isinstance(error, Failure | SandrlError):
                self._log(where_it_happened(error))
            if not status:
                await _answer(noting, failure_of(error))
        finally:
            self._note(scope, status, time.monotonic() - began)

    def _admit(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = {}
        kept = []
        for name, value in scope["headers"]:
            if name.lower() == b"authorization":
                headers[b"authorization"] = value
            else:
                headers.setdefault(name.lower(), value)
                kept.append((name, value))
        scope["headers"] = kept
        path, given = scope["path"], _bearer(headers.get(b"authorization", b""))
        is_of_e2b = is_api(path)
        if is_envd(path):
            # Its token is that of a sandbox; `authorization` names a user.
            kept += [(b"authorization", headers[b"authorization"])] if b"authorization" in headers else []
            return
        if is_of_e2b:
            given = given or headers.get(KEY_HEADER, b"").decode("latin-1").strip()
        is_in_path = path.startswith(_TOKEN_PREFIX)
        if is_in_path:
            given, _, rest = path.removeprefix(_TOKEN_PREFIX).partition("/")
            path = f"/{rest}"
            scope["path"], scope["raw_path"] = path, path.encode("utf-8", "surrogateescape")
        if not is_of_e2b:
            scope["query_string"] = b""
        if path not in OPEN and not path.startswith(OPEN_FOLDER):
            if not given or not self._token.is_like(given):
                raise (PlainFailure if is_of_e2b else Failure)(
                    HTTPStatus.UNAUTHORIZED,
                    "the token is wrong" if given else "the request has no token",
                    "send the header `Authorization: Bearer TOKEN`; `sandrl serve` prints where the token is",
                    {"WWW-Authenticate": "Bearer"},
                )
            if is_in_path and path not in TOKEN_IN_PATH:
                routes = " and ".join(f"`{route}`" for route in TOKEN_IN_PATH)
                message = f"a token in the path authorises {routes} only"
                raise Failure(HTTPStatus.FORBIDDEN, message, "send the header `Authorization: Bearer TOKEN`")
        size = headers.get(b"content-length", b"")
        if size.isdigit() and int(size) > self._max_body_bytes:
            raise self._too_large()

    def _too_large(self) -> Failure:
        message = f"the body is larger than {self._max_body_bytes} bytes"
        hint = "send fewer completions in a request, or start the service with a larger max_body_bytes"
        return Failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, hint, {"Connection": "close"})

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        taken, is_whole, began = 0, False, time.monotonic()

        async def limited() -> Message:
            nonlocal taken, is_whole
            if is_whole:
                return await receive()
            seconds = self._body_seconds + taken / _BYTES_PER_SECOND
            try:
                async with asyncio.timeout(max(began + seconds - time.monotonic(), 0.0)):
                    message = await receive()
            except TimeoutError:
                detail = f"the body did not arrive within {seconds:.0f} s"
                raise Failure(HTTPStatus.REQUEST_TIMEOUT, detail, None, {"Connection": "close"}) from None
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
                if taken > self._max_body_bytes:
                    raise self._too_large()
            return message

        return limited

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "-")
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.request_seconds.labels(route).observe(seconds)
        if self._is_logging:
            self._log(f"{scope['method']} {route} {status or 'client gone'} {seconds * 1000:.1f} ms\n")


def _bearer(header: bytes) -> str:
    scheme, _, secret = header.decode("latin-1").strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


async def _answer(send: Send, failure: Failure) -> None:
    body = failure.body()
    headers = {"Content-Type": failure.media_type, "Content-Length": str(len(body)), **failure.headers}
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": failure.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
