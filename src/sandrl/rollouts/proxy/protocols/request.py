"""The common parts of the protocols: a request in our form, an error, and the reader of an agent's JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, NoReturn, TypeAlias
from typing import Protocol as Interface

from sandrl.models.messages import Message, Reply, ToolCall

Json: TypeAlias = Mapping[str, Any]

IMAGE = "(an image, which this model cannot see)"

_SHOWN = 100
_IMAGES = ("image", "image_url", "input_image")
_MOST_OPENINGS = 100_000


@dataclass(frozen=True, slots=True)
class Request:
    """What an agent asks: a conversation to continue, and the tools that it offers, JSON schemas of functions.

    Attributes:
        model: The name that the agent uses; the policy answers whatever it is.
        tells_usage: Whether a stream of chat completions ends with the numbers of tokens.
    """

    messages: tuple[Message, ...]
    tools: tuple[Json, ...]
    model: str
    is_stream: bool = False
    tells_usage: bool = False


class Failure(Exception):
    """A request is answered with an error.

    Attributes:
        kind: The type of the error, in the words of the protocols.
        field: The field that is wrong.
        is_final: A client is not to try again.
        waits: A client is to try again.
        closes: The connection is of no use any more.
    """

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        *,
        kind: str = "invalid_request_error",
        field: str | None = None,
        code: str | None = None,
        is_final: bool = False,
        waits: bool = False,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.field = field
        self.code = code
        self.headers: list[tuple[bytes, bytes]] = []
        # Both SDKs go by this header before they go by the status.
        self.headers += [(b"x-should-retry", b"false")] if is_final else []
        self.headers += [(b"retry-after", b"1")] if waits else []
        self.headers += [(b"connection", b"close")] if closes else []


class Protocol(Interface):
    """A protocol of a model's vendor.

    Attributes:
        alive: What may be sent in a stream at any time, and has no meaning.
    """

    alive: bytes

    def read(self, document: Json) -> Request:
        """The request.

        Raises:
            Failure: If it is none, or asks for what a policy cannot do.
        """
        ...

    def answer(self, request: Request, message: Message, reply: Reply) -> dict[str, Any]:
        """The document of an answer."""
        ...

    def events(self, request: Request, document: Json) -> Iterator[bytes]:
        """The same answer as a stream of events."""
        ...

    def failure(self, failure: Failure) -> bytes: ...

    def broken(self, failure: Failure) -> bytes:
        """The same in a stream that has begun."""
        ...

    def models(self, names: Sequence[str]) -> bytes: ...


def read_json(body: bytes) -> Json:
    """The object of a body; halves of surrogate pairs, which no tokenizer takes, become question marks.

    Raises:
        Failure: If it is none.
    """
    if body.count(b"[") + body.count(b"{") > _MOST_OPENINGS:
        # Millions of empty lists take all threads seconds, and twenty times the memory of the body.
        raise wrong(f"the body has more than {_MOST_OPENINGS} lists and objects")
    try:
        document = json.loads(body.decode(), parse_constant=_refuse)
    except RecursionError:
        raise wrong("the body is nested too deeply") from None
    except ValueError as error:
        # With its place, and without a part of the body.
        what = f"{error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else "not UTF-8 text"
        what = str(error) if type(error) is ValueError else what
        raise wrong(f"the body is not JSON: {what[:_SHOWN]}") from None
    if not isinstance(document, dict):
        raise wrong("the body is not a JSON object")
    return document


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def wrong(message: str, field: str | None = None) -> Failure:
    return Failure(HTTPStatus.BAD_REQUEST, message, field=field)


def text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise wrong(f"{field}: must be text", field)
    return value.encode("utf-8", "replace").decode()


def objects(value: object, field: str) -> list[Json]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise wrong(f"{field}: must be a list of objects", field)
    return value


def content_text(value: object, field: str, *, skipped: frozenset[str] = frozenset(), is_of_tool: bool = False) -> str:
    """The text of a content, which may be a list of parts; those of the types `skipped` are left out.

    What a tool has returned cannot be refused, because the policy has called it: words replace its images.
    """
    if value is None or isinstance(value, str):
        return text(value or "", field)
    said = []
    for part in objects(value, field):
        kind = part.get("type")
        if kind in ("text", "input_text", "output_text"):
            said.append(text(part.get("text"), f"{field}.text"))
        elif is_of_tool and kind in _IMAGES:
            said.append(IMAGE)
        elif not isinstance(kind, str) or kind not in skipped:
            raise wrong(f"{field}: the policy reads text only, not {str(kind)[:_SHOWN]!r}", field)
    return "".join(said)


def function(tool: Json, field: str, parameters: str = "parameters") -> Json:
    """A tool as a JSON schema of a function."""
    schema = tool.get(parameters) or {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise wrong(f"{field}.{parameters}: must be an object", field)
    name = text(tool.get("name"), f"{field}.name")
    # With a schema that JSON cannot say twice in the same way, no history would continue.
    return _clean(
        {"name": name, "description": text(tool.get("description") or "", f"{field}.description"), "parameters": schema}
    )


def other(tool: Json) -> str:
    """The type of a tool that cannot be offered, as the end of a message."""
    return f", not {str(tool['type'])[:_SHOWN]!r}" if "type" in tool else ""


def _clean(document: Json) -> Json:
    cleaned: Json = json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
    return cleaned


def call(identifier: object, name: object, arguments: object, field: str) -> ToolCall:
    return ToolCall(text(identifier, f"{field}.id"), text(name, f"{field}.name"), text(arguments, f"{field}.arguments"))


def flag(document: Json, field: str) -> bool:
    value = document.get(field)
    if value is not None and not isinstance(value, bool):
        raise wrong(f"{field}: must be true or false", field)
    return bool(value)


def refuse_fields(document: Json, fields: Mapping[str, Sequence[object]], inside: str = "") -> None:
    """Refuses fields with a value that a policy cannot be held to: each field with the values that it may have.

    Args:
        inside: The field of the document that has them; empty for the document itself.
    """
    found = document.get(inside) if inside else document
    for field, allowed in fields.items():
        value = found.get(field) if isinstance(found, dict) else None
        if value not in (None, [], {}) and value not in allowed:
            place = f"{inside}.{field}" if inside else field
            raise wrong(f"{place}: the policy answers without it; leave it out", place)


def offers_tools(document: Json, *, none: Sequence[object], auto: Sequence[object]) -> bool:
    """Whether a request's tools may be called, by its `tool_choice`."""
    choice = document.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    if kind in none:
        return False
    if kind is not None and kind not in auto:
        raise wrong("tool_choice: the policy decides itself whether it calls a tool; use auto", "tool_choice")
    return True


def now() -> int:
    return int(time.time())


def event(document: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(document)}\n\n".encode()


def openai_failure(failure: Failure) -> bytes:
    error = {"message": failure.message, "type": failure.kind, "param": failure.field, "code": failure.code}
    return json.dumps({"error": error}).encode()


OPENAI_ALIVE = b": the model is thinking\n\n"


def openai_models(names: Sequence[str]) -> bytes:
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "sandrl"} for name in names]
    return json.dumps({"object": "list", "data": models, "has_more": False}).encode()
