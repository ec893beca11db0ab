"""Connect, the protocol of envd: one message of JSON per request, or streams of messages in envelopes.

https://connectrpc.com/docs/protocol
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from sandrl.service.failures import Failure

logger = logging.getLogger(__name__)

STREAM_TYPE = "application/connect+json"

_STATUSES = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "unauthenticated": 401,
}
_COMPRESSED, _LAST = 1, 2
_HEAD_BYTES = 5


@dataclass(eq=False)
class RpcError(Exception):
    """An error of a call; `code` is one of Connect's."""

    code: str
    message: str

    @property
    def document(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


class PlainFailure(Failure):
    """An error as E2B's servers tell it: a number and a message."""

    media_type = "application/json"

    def document(self) -> dict[str, Any]:
        return {"code": self.status, "message": f"{self.detail}: {self.hint}" if self.hint else self.detail}


async def message_of(request: Request, most_bytes: int) -> dict[str, Any]:
    """The message of a call that has one.

    Raises:
        RpcError: If it is not an object of JSON.
    """
    return _parsed(_plain(await request.body(), request.headers.get("content-encoding"), most_bytes))


async def messages_of(request: Request, most_bytes: int) -> AsyncIterator[dict[str, Any]]:
    """The messages of a stream, as they come.

    Raises:
        RpcError: If one is damaged, or too large.
    """
    encoding, waiting = request.headers.get("connect-content-encoding"), b""
    async for block in request.stream():
        waiting += block
        while len(waiting) >= _HEAD_BYTES:
            flags, size = waiting[0], int.from_bytes(waiting[1:_HEAD_BYTES], "big")
            if size > most_bytes:
                raise RpcError("resource_exhausted", f"a message is larger than {most_bytes} bytes")
            if len(waiting) < _HEAD_BYTES + size:
                break
            content, waiting = waiting[_HEAD_BYTES : _HEAD_BYTES + size], waiting[_HEAD_BYTES + size :]
            if not flags & _LAST:
                yield _parsed(_plain(content, encoding if flags & _COMPRESSED else None, most_bytes))
    if waiting:
        raise RpcError("invalid_argument", "the stream ends within a message")


def answered(message: Mapping[str, Any]) -> Response:
    return Response(_content(message), media_type="application/json")


def refused(error: RpcError) -> Response:
    return Response(_content(error.document), _STATUSES[error.code], media_type="application/json")


def streamed(messages: AsyncIterator[Mapping[str, Any]]) -> Response:
    """An answer of several messages; an `RpcError` among them ends it."""

    async def blocks() -> AsyncIterator[bytes]:
        end: dict[str, Any] = {}
        try:
            async for message in messages:
                yield _enveloped(0, message)
        except RpcError as error:
            end = {"error": error.document}
        except Exception:
            # A stream that breaks off is a lost connection to a client, which asks again.
            logger.exception("a stream of E2B's API failed")
            end = {"error": RpcError("internal", "the service failed; its log says why").document}
        yield _enveloped(_LAST, end)

    return StreamingResponse(blocks(), media_type=STREAM_TYPE)


def _enveloped(flags: int, message: Mapping[str, Any]) -> bytes:
    content = _content(message)
    return bytes([flags]) + len(content).to_bytes(4, "big") + content


def _content(message: Mapping[str, Any]) -> bytes:
    # ASCII, because names of files need not be UTF-8.
    return json.dumps(message).encode("ascii")


def _plain(content: bytes, encoding: str | None, most_bytes: int) -> bytes:
    return content if encoding in (None, "", "identity") else unpacked(content, encoding, most_bytes)


def unpacked(content: bytes, encoding: str | None, most_bytes: int) -> bytes:
    """What gzip has packed.

    Raises:
        RpcError: If it is damaged, too large, or packed by something else.
    """
    if encoding != "gzip":
        raise RpcError("unimplemented", f"the encoding {str(encoding)[:40]!r} is not supported; use gzip or identity")
    try:
        # Several members follow one another, and the last must be whole.
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            found = packed.read(most_bytes + 1)
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise RpcError("invalid_argument", "the body is not gzip, or its end is missing") from error
    if len(found) > most_bytes:
        raise RpcError("resource_exhausted", f"the body is larger than {most_bytes} bytes")
    return found


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content) if content else {}
    except (ValueError, RecursionError):
        raise RpcError("invalid_argument", "the message is not JSON") from None
    if not isinstance(value, dict):
        raise RpcError("invalid_argument", "the message is not an object")
    return value
