"""A model behind an endpoint: a conversation in, its next message out.

The design decision: chat completions are asked first, because every server has them; the Responses API only where an
endpoint says, by its refusal, that a model has no other. What a server does not take (logprobs, a temperature, the old
name of the token limit) is left out from then on, and the question asked again: which model takes what is known to its
endpoint only.
"""

from __future__ import annotations

import difflib
import json
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from sandrl.errors import EndpointError, RequestRefusedError, UsageError
from sandrl.rollouts.messages import Message, Reply, ToolCall
from sandrl.rollouts.policy import Sampling
from sandrl.rollouts.wire import Endpoint, Wire

Json: TypeAlias = Mapping[str, Any]

# What a question can do without, and what is sent instead.
_OPTIONAL: Mapping[str, str | None] = {
    "max_tokens": "max_completion_tokens",
    "temperature": None,
    "logprobs": None,
    "include": None,
}
_SHOWN_MODELS = 5


class ChatModel:
    """A model behind an endpoint; threads may share one.

    Args:
        endpoint: Where it is.
        name: What it is called there.
        sampling: How it answers.
        stop: Once it is set, answers are not wanted any more.
    """

    def __init__(
        self, endpoint: Endpoint, name: str, sampling: Sampling | None = None, *, stop: threading.Event | None = None
    ) -> None:
        self.name = name
        self._wire = Wire(endpoint, stop)
        self._sampling = sampling or Sampling()
        self._has_chat = True
        self._renamed: dict[str, str | None] = {}

    @property
    def base_url(self) -> str:
        """Where it is asked."""
        return self._wire.endpoint.base_url

    def check(self) -> None:
        """Finds out, in seconds and without spending a token, whether the model can be asked.

        Raises:
            EndpointError: If the endpoint cannot be reached.
            AuthenticationError: If it refuses the key.
            UsageError: If it says that it has no such model.
        """
        listed = (self._wire.look("models") or {}).get("data")
        names = [str(each.get("id")) for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        if names and self.name not in names:
            raise self._unknown(names)

    def reply(self, messages: Sequence[Message], tools: Sequence[Json] = ()) -> Reply:
        """The model's next message.

        Args:
            messages: The conversation so far.
            tools: What it may call, as JSON schemas of functions.

        Raises:
            EndpointError: If there is no answer after all retries.
            RequestRefusedError: If the endpoint refuses the question itself.
            AuthenticationError: If it refuses the key.
            UsageError: If it has no such model.
            Stopped: If the answer is not wanted any more.
        """
        began = time.monotonic()
        while True:
            try:
                if self._has_chat:
                    question = self._chat_question(messages, tools)
                    reply, retries = self._wire.ask("chat/completions", question, _chat_reply)
                else:
                    question = self._responses_question(messages, tools)
                    reply, retries = self._wire.ask("responses", question, _responses_reply)
            except RequestRefusedError as refusal:
                self._learn(refusal)
            else:
                message = replace(reply.message, seconds=time.monotonic() - began)
                return replace(reply, message=message, retries=retries)

    def _learn(self, refusal: RequestRefusedError) -> None:
        """Notes what the endpoint does not take, so that the question can be asked another way; else raises.

        Another thread may have learned it while this one asked; asking again is right then, too.
        """
        message = refusal.message.lower()
        if refusal.status in (400, 404, 405) and "chat/completions" in message and "responses" in message:
            self._has_chat = False
            return
        if refusal.status in (404, 405) and not refusal.is_of_api:
            if not self._has_chat:
                raise EndpointError(
                    f"{self.base_url} has neither chat completions nor the Responses API",
                    hint="the address ends in /v1 as a rule",
                ) from refusal
            self._has_chat = False
            return
        if refusal.status == 404:
            raise self._unknown(()) from refusal
        for name, other in _OPTIONAL.items():
            if name not in self._renamed and (refusal.parameter == name or f"'{name}'" in message):
                self._renamed[name] = other
                return
        raise refusal

    def _unknown(self, names: Sequence[str]) -> UsageError:
        shown = nearest_names(self.name, names)
        return UsageError(
            f"{self.base_url} has no model {self.name!r}",
            hint=f"use --model with one it has: {shown}" if shown else "use --model with one it has",
        )

    def _chat_question(self, messages: Sequence[Message], tools: Sequence[Json]) -> dict[str, Any]:
        question: dict[str, Any] = {
            "model": self.name,
            "messages": [chat_message(message) for message in messages],
            "max_tokens": self._sampling.max_tokens,
            "temperature": self._sampling.temperature,
            "logprobs": True,
        }
        if tools:
            question["tools"] = [{"type": "function", "function": tool} for tool in tools]
        return self._without_refused(question)

    def _responses_question(self, messages: Sequence[Message], tools: Sequence[Json]) -> dict[str, Any]:
        question: dict[str, Any] = {
            "model": self.name,
            "input": [item for message in messages for item in _items(message)],
            "max_output_tokens": self._sampling.max_tokens,
            "temperature": self._sampling.temperature,
            # Nothing stays at the endpoint; what it thought comes back to it with the next question.
            "store": False,
            "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        }
        if tools:
            question["tools"] = [{"type": "function", **tool} for tool in tools]
        return self._without_refused(question)

    def _without_refused(self, question: dict[str, Any]) -> dict[str, Any]:
        for name, other in tuple(self._renamed.items()):
            value = question.pop(name, None)
            if other is not None and value is not None:
                question[other] = value
        return question


def nearest_names(name: str, names: Sequence[str]) -> str:
    """A few names of models there are, those that come nearest to one there is not first; empty if there are none."""
    near = [*difflib.get_close_matches(name, names, _SHOWN_MODELS, 0.3), *names]
    return ", ".join(list(dict.fromkeys(near))[:_SHOWN_MODELS])


def chat_message(message: Message) -> dict[str, Any]:
    """The message as chat completions take it, without what no server accepts."""
    document: dict[str, Any] = {"role": message.role, "content": _sendable(message.content)}
    if message.tool_calls:
        document["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _tool_name(call.name), "arguments": _json_arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        document["tool_call_id"] = message.tool_call_id
    return document


def _items(message: Message) -> list[Json]:
    if message.items:
        return list(message.items)
    if message.role == "tool":
        output = _sendable(message.content)
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": output}]
    return [{"role": message.role, "content": _sendable(message.content)}]


def _tool_name(name: str) -> str:
    """What a model called as a tool; servers refuse names that no tool can have, and with them the conversation."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


def _sendable(text: str) -> str:
    """The text without halves of surrogate pairs, which no server accepts."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _json_arguments(arguments: str) -> str:
    """What a model wrote as arguments; what is no JSON, which servers that parse it refuse, as a text in JSON."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    return _sendable(arguments) if is_object else json.dumps({"malformed": _sendable(arguments)})


def _chat_reply(document: Json) -> Reply:
    choice = _first(document.get("choices"))
    said = choice.get("message")
    if not isinstance(said, dict):
        raise ValueError("the answer has no message")
    calls = said.get("tool_calls")
    tokens, logprobs = _logprobs(_object(choice.get("logprobs")).get("content"))
    usage = _object(document.get("usage"))
    message = Message(
        "assistant",
        _text(said.get("content")),
        tuple(_tool_call(call) for call in calls) if isinstance(calls, list) else (),
        tokens=tokens,
        logprobs=logprobs,
        finish_reason=_text(choice.get("finish_reason")) or None,
    )
    return Reply(message, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


def _responses_reply(document: Json) -> Reply:
    output = document.get("output")
    if not isinstance(output, list):
        raise ValueError("the answer has no output")
    items = [item for item in output if isinstance(item, dict)]
    parts = [part for item in items if item.get("type") == "message" for part in _list(item.get("content"))]
    found = [_logprobs(_object(part).get("logprobs")) for part in parts]
    usage = _object(document.get("usage"))
    message = Message(
        "assistant",
        _text(parts),
        tuple(_function_call(item) for item in items if item.get("type") == "function_call"),
        tokens=tuple(token for tokens, _ in found for token in tokens),
        logprobs=tuple(logprob for _, logprobs in found for logprob in logprobs),
        finish_reason=_text(document.get("status")) or None,
        items=tuple(items),
    )
    return Reply(message, _count(usage, "input_tokens"), _count(usage, "output_tokens"))


def _tool_call(call: object) -> ToolCall:
    call = _object(call)
    function = _object(call.get("function"))
    return _call(call.get("id"), function.get("name"), function.get("arguments"))


def _function_call(item: Json) -> ToolCall:
    return _call(item.get("call_id"), item.get("name"), item.get("arguments"))


def _call(identifier: object, name: object, arguments: object) -> ToolCall:
    written = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    return ToolCall(_text(identifier) or f"call_{secrets.token_hex(8)}", _text(name), written)


def _logprobs(content: object) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Tokens and their logprobs; none at all unless there is a number for every one."""
    entries = [_object(entry) for entry in _list(content)]
    logprobs = tuple(float(each["logprob"]) for each in entries if isinstance(each.get("logprob"), int | float))
    if len(logprobs) < len(entries):
        return (), ()
    return tuple(_text(entry.get("token")) for entry in entries), logprobs


def _text(value: object) -> str:
    """A text, or the texts of a list of parts."""
    if isinstance(value, str):
        return value
    return "".join(_text(_object(part).get("text")) for part in _list(value))


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _first(value: object) -> Json:
    return _object(next(iter(_list(value)), None))


def _count(usage: Json, name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0
