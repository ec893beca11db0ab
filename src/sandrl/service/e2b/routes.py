"""The routes of E2B's API: `/sandboxes`, and envd's processes and files."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from sandrl.errors import ServiceError
from sandrl.jsonl import parse_object
from sandrl.service.e2b import processes
from sandrl.service.e2b.connect import (
    PlainFailure,
    RpcError,
    answered,
    message_of,
    messages_of,
    refused,
    streamed,
    unpacked,
)
from sandrl.service.e2b.files import Files, Watcher
from sandrl.service.e2b.sandboxes import GONE, E2BSandbox, E2BSandboxes, checked_seconds

if TYPE_CHECKING:
    from sandrl.service.state import Service

KEY_HEADER = b"x-api-key"
"""Where E2B's clients send the token of the service."""

_SANDBOX_HEADER, _TOKEN_HEADER, _PING_HEADER = "e2b-sandbox-id", "x-access-token", "keepalive-ping-interval"
_ENVD = ("/process.Process/", "/filesystem.Filesystem/", "/files", "/health")
_API = ("/sandboxes", "/v2/sandboxes")
_PORT = "49983-"
_NUMBER = re.compile(r"[0-9]{1,11}")
_MOST_MESSAGE_BYTES = 16 << 20
_STATUSES = {"not_found": 404, "unauthenticated": 401, "permission_denied": 403, "resource_exhausted": 507}
_NO_SUCH = "this service has no {what}: a sandbox lives until its time is over"

_Handler = Callable[[E2BSandbox, str | None, dict[str, Any]], Awaitable[Mapping[str, Any]]]


def is_envd(path: str) -> bool:
    """Whether a request is for the envd of a sandbox, which has a token of its own."""
    return path.startswith(_ENVD[:2]) or path in _ENVD[2:]


def is_api(path: str) -> bool:
    return path in _API or path.startswith(tuple(f"{each}/" for each in _API))


def add_routes(app: FastAPI, service: Service) -> None:
    """Adds the routes; they are not in the description of the service's own API."""

    def add(path: str, handler: Callable[..., Awaitable[Response]], *methods: str) -> None:
        app.add_api_route(path, handler, methods=list(methods), include_in_schema=False)

    async def create(request: Request) -> Response:
        made = await service.e2b.create(await _body(request), request.headers.get("idempotency-key", "")[:200])
        return JSONResponse(made.with_token(service), HTTPStatus.CREATED)

    async def list_(request: Request) -> Response:
        query = dict(parse_qsl(request.url.query))
        states = query.get("state", "running").split(",")
        try:
            first, most = int(query.get("nextToken") or 0), min(int(query.get("limit") or 100), 1000)
            if first < 0 or most < 1:
                raise ValueError
            after = datetime.fromisoformat(query["startedAfter"]) if "startedAfter" in query else None
        except ValueError:
            raise PlainFailure(
                HTTPStatus.BAD_REQUEST, "nextToken and limit: must be positive numbers, and startedAfter a time"
            ) from None
        found = service.e2b.all(
            dict(parse_qsl(query.get("metadata", ""))),
            query.get("template"),
            after if after is None or after.tzinfo else after.replace(tzinfo=UTC),
            oldest_first=query.get("order") == "asc",
        )
        found = found if "running" in states else []
        left = {"X-Next-Token": str(first + most)} if first + most < len(found) else {}
        return JSONResponse([each.document(service) for each in found[first : first + most]], headers=left)

    async def show(id: str) -> Response:
        return JSONResponse(service.e2b.find(id).with_token(service))

    async def delete(id: str) -> Response:
        service.e2b.end(service.e2b.find(id))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def timeout(request: Request, id: str) -> Response:
        seconds = checked_seconds((await _body(request)).get("timeout"))
        service.e2b.extend(service.e2b.find(id), seconds, is_exact=True)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def refresh(request: Request, id: str) -> Response:
        seconds = checked_seconds((await _body(request)).get("duration", 0))
        service.e2b.extend(service.e2b.find(id), seconds, is_exact=False)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def connect(request: Request, id: str) -> Response:
        found = service.e2b.find(id)
        seconds = checked_seconds((await _body(request)).get("timeout", 0))
        service.e2b.extend(found, seconds, is_exact=False)
        return JSONResponse(found.with_token(service))

    async def no_metrics(id: str) -> Response:
        service.e2b.find(id)
        return JSONResponse([])

    async def no_pause(id: str) -> Response:
        service.e2b.find(id)
        raise PlainFailure(HTTPStatus.NOT_IMPLEMENTED, _NO_SUCH.format(what="pauses, snapshots and forks"))

    for prefix in _API:
        add(prefix, create, "POST")
        add(prefix, list_, "GET")
        add(f"{prefix}/{{id}}/connect", connect, "POST")
    add("/sandboxes/{id}", show, "GET")
    add("/sandboxes/{id}", delete, "DELETE")
    add("/sandboxes/{id}/timeout", timeout, "POST")
    add("/sandboxes/{id}/refreshes", refresh, "POST")
    add("/sandboxes/{id}/metrics", no_metrics, "GET")
    for name in ("pause", "resume", "snapshots", "fork"):
        add(f"/sandboxes/{{id}}/{name}", no_pause, "POST")

    async def health(request: Request) -> Response:
        sandbox = _sandbox(service.e2b, request)
        try:
            await sandbox.run(":", is_own=True)
        except RpcError as error:
            if not await sandbox.is_lost():
                raise PlainFailure(HTTPStatus.SERVICE_UNAVAILABLE, error.message) from error
            service.e2b.end(sandbox)
            raise PlainFailure(HTTPStatus.BAD_GATEWAY, f"{GONE}: {sandbox.id!r}") from error
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def download(request: Request) -> Response:
        query = dict(parse_qsl(request.url.query))
        sandbox = _sandbox(service.e2b, request, _signed(query, "read"))
        with _Plainly():
            files = Files(sandbox, query.get("username") or None)
            content = await files.read(await files.absolute(query.get("path", "")), service.config.max_body_bytes)
        return Response(content, media_type="application/octet-stream")

    async def upload(request: Request) -> Response:
        query = dict(parse_qsl(request.url.query))
        sandbox = _sandbox(service.e2b, request, _signed(query, "write"))
        with _Plainly():
            files = Files(sandbox, query.get("username") or None)
            written = [
                await files.write(await files.absolute(path), content)
                async for path, content in _uploaded(request, query.get("path"), service.config.max_body_bytes)
            ]
        return JSONResponse(written)

    add("/health", health, "GET")
    add("/files", download, "GET")
    add("/files", upload, "POST")

    def unary(path: str, handle: _Handler) -> None:
        async def called(request: Request) -> Response:
            sandbox = _sandbox(service.e2b, request)
            try:
                return answered(await handle(sandbox, _user(request), await message_of(request, _MOST_MESSAGE_BYTES)))
            except RpcError as error:
                return refused(error)

        add(path, called, "POST")

    def streaming(
        path: str, handle: Callable[[E2BSandbox, Request, dict[str, Any]], AsyncIterator[Mapping[str, Any]]]
    ) -> None:
        async def called(request: Request) -> Response:
            sandbox = _sandbox(service.e2b, request)
            try:
                given = [each async for each in messages_of(request, _MOST_MESSAGE_BYTES)]
            except RpcError as error:
                return streamed(_ended(error))
            return streamed(handle(sandbox, request, given[0] if given else {}))

        add(path, called, "POST")

    async def input_stream(request: Request) -> Response:
        sandbox = _sandbox(service.e2b, request)
        try:
            # All of it before the answer: an answer that has begun listens for the client's end.
            await _stream_input(sandbox, request)
        except RpcError as error:
            return streamed(_ended(error))
        return streamed(_ended())

    for name, handle in _PROCESSES.items():
        unary(f"/process.Process/{name}", handle)
    streaming("/process.Process/Start", _start)
    streaming("/process.Process/Connect", _connect)
    add("/process.Process/StreamInput", input_stream, "POST")
    for name, handle in _FILES.items():
        unary(f"/filesystem.Filesystem/{name}", handle)
    streaming("/filesystem.Filesystem/WatchDir", _watch)


async def _body(request: Request) -> dict[str, Any]:
    try:
        value = parse_object(await request.body())
    except ValueError as error:
        raise PlainFailure(HTTPStatus.BAD_REQUEST, f"the body: {error}") from None
    return value


def _signed(query: Mapping[str, str], operation: str) -> Callable[[str], str | None]:
    """The signature that a link to a file must have, of the access token, if it has one that is still valid."""

    def signature(token: str) -> str | None:
        ends = query.get("signature_expiration")
        if ends is not None and (not _NUMBER.fullmatch(ends) or int(ends) < time.time()):
            return None
        parts = (query.get("path", ""), operation, query.get("username", ""), token, *([] if ends is None else [ends]))
        digest = hashlib.sha256(":".join(parts).encode()).digest()
        return f"v1_{base64.b64encode(digest).rstrip(b'=').decode()}"

    return signature


def _sandbox(
    sandboxes: E2BSandboxes, request: Request, signed: Callable[[str], str | None] | None = None
) -> E2BSandbox:
    named = request.headers.get(_SANDBOX_HEADER)
    if named is None:
        # `49983-ID.DOMAIN`, where each sandbox has a name of its own.
        host = request.headers.get("host", "").partition(".")[0]
        named = host.removeprefix(_PORT) if host.startswith(_PORT) else ""
    given = request.query_params.get("signature", "")
    if signed is not None and given and _TOKEN_HEADER not in request.headers:
        return sandboxes.of_envd(named, given, signed)
    return sandboxes.of_envd(named, request.headers.get(_TOKEN_HEADER, ""))


def _user(request: Request) -> str | None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[0] or None
    except (binascii.Error, ValueError):
        raise RpcError("unauthenticated", "the user is not base64") from None


class _Plainly:
    # Errors of files over plain HTTP.

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, RpcError):
            status = 502 if error.code == "unavailable" else _STATUSES.get(error.code, 400)
            raise PlainFailure(status, error.message) from error


async def _uploaded(request: Request, path: str | None, most_bytes: int) -> AsyncIterator[tuple[str, bytes]]:
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        async with request.form(max_files=10_000, max_fields=10_000) as form:
            parts = [each for _, each in form.multi_items() if not isinstance(each, str)]
            for part in parts:
                named = path if path is not None and len(parts) == 1 else part.filename or ""
                yield named, await part.read()
        return
    content = await request.body()
    if (encoding := request.headers.get("content-encoding")) not in (None, "", "identity"):
        content = unpacked(content, encoding, most_bytes)
    yield path or "", content


def _seconds(request: Request) -> float | None:
    given = request.headers.get("connect-timeout-ms", "")
    return int(given) / 1000 if _NUMBER.fullmatch(given) and int(given) else None


def _ping_seconds(request: Request) -> float | None:
    given = request.headers.get(_PING_HEADER, "")
    return max(float(given), 1.0) if _NUMBER.fullmatch(given) else 90.0


async def _start(sandbox: E2BSandbox, request: Request, body: dict[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
    process, reader = await processes.start(sandbox, body, _user(request), _seconds(request))
    async for event in process.events(reader, _ping_seconds(request)):
        yield event


async def _connect(sandbox: E2BSandbox, request: Request, body: dict[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
    process = processes.find(sandbox, body.get("process"))
    async for event in process.events(process.subscribe(), _ping_seconds(request)):
        yield event


async def _watch(sandbox: E2BSandbox, request: Request, body: dict[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
    watcher, identifier = await Watcher.of(sandbox, _user(request), body), secrets.token_hex(8)
    sandbox.watchers[identifier] = watcher
    try:
        yield {"start": {}}
        async for events in watcher.each():
            for event in events:
                yield {"filesystem": event}
    finally:
        del sandbox.watchers[identifier]


async def _ended(error: RpcError | None = None) -> AsyncIterator[Mapping[str, Any]]:
    # The answer to a stream: nothing but its end.
    if error is not None:
        raise error
    yield {}


async def _stream_input(sandbox: E2BSandbox, request: Request) -> None:
    process = None
    async for message in messages_of(request, _MOST_MESSAGE_BYTES):
        if "start" in message:
            process = processes.find(sandbox, (message["start"] or {}).get("process"))
        elif "data" in message and process is not None:
            await _written(process, (message["data"] or {}).get("input"))


async def _written(process: processes.Process, given: Any) -> None:
    try:
        await asyncio.wrap_future(process.write(processes.input_of(given)))
    except ServiceError as error:
        raise RpcError("failed_precondition", f"the process takes no input: {error.message}") from error


async def _list_processes(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    found = sandbox.processes.values()
    return {
        "processes": [
            {"pid": each.pid, "config": dict(each.config), **({"tag": each.tag} if each.tag else {})} for each in found
        ]
    }


async def _send_input(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    await _written(processes.find(sandbox, body.get("process")), body.get("input"))
    return {}


async def _close_stdin(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    await asyncio.wrap_future(processes.find(sandbox, body.get("process")).close_input())
    return {}


async def _send_signal(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    await processes.find(sandbox, body.get("process")).signal(processes.signal_of(body.get("signal")))
    return {}


async def _update(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    process = processes.find(sandbox, body.get("process"))
    if body.get("pty"):
        await process.resize(*processes.resized(body["pty"]))
    return {}


async def _stat(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    files = Files(sandbox, user)
    return {"entry": await files.entry(await files.absolute(body.get("path")))}


async def _list_directory(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    files = Files(sandbox, user)
    path, depth = await files.absolute(body.get("path")), body.get("depth", 1)
    return {"entries": await files.entries(path, depth if isinstance(depth, int) else 0)}


async def _make_directory(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    files = Files(sandbox, user)
    return {"entry": await files.make_directory(await files.absolute(body.get("path")))}


async def _move(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    files = Files(sandbox, user)
    source, destination = await files.absolute(body.get("source")), await files.absolute(body.get("destination"))
    return {"entry": await files.move(source, destination)}


async def _remove(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    files = Files(sandbox, user)
    await files.remove(await files.absolute(body.get("path")))
    return {}


async def _create_watcher(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    watcher = await Watcher.of(sandbox, user, body)
    identifier = secrets.token_hex(8)
    sandbox.watchers[identifier] = watcher
    return {"watcherId": identifier}


async def _watcher_events(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    watcher = sandbox.watchers.get(str(body.get("watcherId")))
    if watcher is None:
        raise RpcError("not_found", "there is no such watcher")
    return {"events": await watcher.events()}


async def _remove_watcher(sandbox: E2BSandbox, user: str | None, body: dict[str, Any]) -> Mapping[str, Any]:
    sandbox.watchers.pop(str(body.get("watcherId")), None)
    return {}


_PROCESSES: Mapping[str, _Handler] = {
    "List": _list_processes,
    "SendInput": _send_input,
    "CloseStdin": _close_stdin,
    "SendSignal": _send_signal,
    "Update": _update,
}
_FILES: Mapping[str, _Handler] = {
    "Stat": _stat,
    "ListDir": _list_directory,
    "MakeDir": _make_directory,
    "Move": _move,
    "Remove": _remove,
    "CreateWatcher": _create_watcher,
    "GetWatcherEvents": _watcher_events,
    "RemoveWatcher": _remove_watcher,
}
