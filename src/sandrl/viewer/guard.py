"""Restricts the viewer to requests from this machine by users of its link.

Other pages that are open in the browser must not be able to read a run. The first link has a token, for which the
browser gets a cookie that no script can read and no other site can send; then the token is removed from the address
bar. A request under another name than this machine's own is refused, because another name may be made to resolve to
this machine.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN = "token"
"""The parameter of the first link."""

_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
_METHODS = frozenset({"GET", "HEAD"})
_BYTES = 24
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Lets requests through to an application; its cookie has the port, because browsers send cookies to all ports."""

    def __init__(self, app: Application, port: int) -> None:
        self._app = app
        self._cookie = f"sandrl-view-{port}"
        self._session = secrets.token_urlsafe(_BYTES)
        self.token = secrets.token_urlsafe(_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        answer = self._answer(Request(scope))
        await (answer or self._app)(scope, receive, send_with_headers)

    def _answer(self, request: Request) -> Response | None:
        if _name(request.headers.get("host", "")) not in _HOSTS:
            return _refusal(
                request, 403, "the viewer does not serve this host name: use the link that `sandrl view` printed"
            )
        if request.method not in _METHODS:
            return Response(status_code=405, headers={"Allow": "GET, HEAD"})
        given = request.query_params.get(TOKEN)
        if given is not None and _is_same(given, self.token):
            # Two slashes would be the address of another site.
            answer = RedirectResponse("/" + request.url.path.lstrip("/\\"), 303, headers={"Cache-Control": "no-store"})
            answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path="/")
            return answer
        if not _is_same(request.cookies.get(self._cookie, ""), self._session):
            return _refusal(request, 403, "the token is missing or wrong: open the link that `sandrl view` printed")
        return None


def _name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode("ascii"))


def _refusal(request: Request, status: int, message: str) -> Response:
    headers = {"Cache-Control": "no-store"}
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": message}, status, headers)
    return PlainTextResponse(f"sandrl view: {message}\n", status, headers)
