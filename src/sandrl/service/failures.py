"""Errors as the service returns them: RFC 9457 problem details, with the messages of the command line.

An error in a request is described in full. An unforeseen error is described by its type only, because its message may
contain text from a user; the traceback on standard error shows no values either.
"""

from __future__ import annotations

import json
import traceback
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar

from sandrl.errors import InputError, QueueFullError, SandrlError, ScorerClosedError, ServiceError, UsageError

MEDIA_TYPE = "application/problem+json"
_SOON_SECONDS = 2


@dataclass(eq=False)
class Failure(Exception):
    """Ends a request with an error.

    Attributes:
        detail: What happened, and to which part of the request.
        place: The part of the request that is wrong, where there is one.
    """

    media_type: ClassVar[str] = MEDIA_TYPE

    status: int
    detail: str
    hint: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    place: str | None = None

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        document |= {"hint": self.hint} if self.hint else {}
        document |= {"place": self.place} if self.place else {}
        return document

    def body(self) -> bytes:
        return json.dumps(self.document(), ensure_ascii=True).encode("ascii")


def failure_of(error: BaseException) -> Failure:
    match error:
        case Failure():
            return error
        case QueueFullError():
            headers = {"Retry-After": str(round(error.retry_seconds))}
            return Failure(HTTPStatus.TOO_MANY_REQUESTS, error.message, error.hint, headers)
        case ScorerClosedError():
            headers = {"Retry-After": str(_SOON_SECONDS), "Connection": "close"}
            return Failure(HTTPStatus.SERVICE_UNAVAILABLE, error.message, error.hint, headers)
        case InputError():
            place = ".".join(part for part in (error.path, error.field) if part)
            return Failure(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, error.hint, place=place or None)
        case UsageError():
            return Failure(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, error.hint)
        case ServiceError() | SandrlError():
            headers = {"Retry-After": str(_SOON_SECONDS)}
            return Failure(HTTPStatus.SERVICE_UNAVAILABLE, error.message, error.hint, headers)
    return Failure(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"internal error: {type(error).__name__}",
        "the log of the service shows where; please report it",
    )


def where_it_happened(error: BaseException) -> str:
    """The traceback of an error without its message, which may hold what a user sent."""
    lines = traceback.format_tb(error.__traceback__)
    cause = error.__cause__ or error.__context__
    before = "" if cause is None else where_it_happened(cause) + "which led to:\n"
    return f"{before}{''.join(lines)}{type(error).__name__}\n"
