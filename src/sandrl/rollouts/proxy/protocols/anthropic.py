"""Anthropic's messages."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from sandrl.events.results import is_cut_off
from sandrl.models.endpoint import json_arguments
from sandrl.models.messages import Message, Reply
from sandrl.rollouts.proxy.protocols.request import (
    Failure,
    Json,
    Request,
    call,
    content_text,
    event,
    flag,
    function,
    objects,
    offers_tools,
    openai_models,
    other,
    refuse_fields,
    text,
    wrong,
)

_REFUSED = {"stop_sequences": (), "mcp_servers": (), "container": (), "output_format": ()}
# What an agent may have from another model; the policy's own thoughts are not sent.
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


class Anthropic:
    alive = event({"type": "ping"}, "ping")
    models = staticmethod(openai_models)

    def read(self, document: Json) -> Request:
        refuse_fields(document, _REFUSED)
        refuse_fields(document, {"format": ()}, inside="output_config")
        tools = []
        for place, tool in enumerate(objects(document.get("tools") or [], "tools")):
            field = f"tools[{place}]"
            if tool.get("type") not in (None, "custom"):
                raise wrong(f"{field}: only tools with an input_schema can be offered{other(tool)}", field)
            tools.append(function(tool, field, "input_schema"))
        if not offers_tools(document, none=("none",), auto=("auto",)):
            tools = []
        messages = []
        if system := content_text(document.get("system"), "system"):
            messages.append(Message("system", system))
        for place, each in enumerate(objects(document.get("messages"), "messages")):
            messages += _messages(each, f"messages[{place}]")
        return Request(
            tuple(messages),
            tuple(tools),
            text(document.get("model") or "", "model"),
            flag(document, "stream"),
        )

    def answer(self, request: Request, message: Message, reply: Reply) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if message.content or not message.tool_calls:
            content.append({"type": "text", "text": message.content})
        content += [
            {
                "type": "tool_use",
                "id": each.id,
                "name": each.name,
                "input": json.loads(json_arguments(each.arguments or "{}")),
            }
            for each in message.tool_calls
        ]
        reason = "tool_use" if message.tool_calls else "end_turn"
        return {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": "max_tokens" if is_cut_off(message.finish_reason) else reason,
            "stop_sequence": None,
            "usage": {"input_tokens": reply.prompt_tokens, "output_tokens": reply.completion_tokens},
        }

    def events(self, request: Request, document: Json) -> Iterator[bytes]:
        usage = {**document["usage"], "output_tokens": 0}
        begun = {**document, "content": [], "stop_reason": None, "usage": usage}
        yield _event({"type": "message_start", "message": begun})
        for index, block in enumerate(document["content"]):
            if block["type"] == "text":
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                empty = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield _event({"type": "content_block_start", "index": index, "content_block": empty})
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        ended = {name: document[name] for name in ("stop_reason", "stop_sequence")}
        yield _event({"type": "message_delta", "delta": ended, "usage": document["usage"]})
        yield _event({"type": "message_stop"})

    def failure(self, failure: Failure) -> bytes:
        return json.dumps(_error(failure)).encode()

    def broken(self, failure: Failure) -> bytes:
        return _event(_error(failure))


def _error(failure: Failure) -> Json:
    return {"type": "error", "error": {"type": failure.kind, "message": failure.message}}


def _event(document: Json) -> bytes:
    return event(document, document["type"])


def _messages(said: Json, field: str) -> Sequence[Message]:
    role, content = said.get("role"), said.get("content")
    if role not in ("user", "assistant", "system"):
        raise wrong(f"{field}.role: must be user or assistant", field)
    if not isinstance(content, list):
        return [Message(role, content_text(content, f"{field}.content"))]
    blocks = objects(content, f"{field}.content")
    if role == "assistant":
        calls = [
            call(each.get("id"), each.get("name"), json.dumps(each.get("input") or {}), f"{field}.content")
            for each in blocks
            if each.get("type") == "tool_use"
        ]
        told = content_text(content, f"{field}.content", skipped=_THOUGHTS | {"tool_use"})
        return [Message(role, told, tuple(calls))]
    results = [
        Message(
            "tool",
            content_text(each.get("content"), f"{field}.content", is_of_tool=True),
            tool_call_id=text(each.get("tool_use_id"), f"{field}.content.tool_use_id"),
        )
        for each in blocks
        if each.get("type") == "tool_result"
    ]
    told = content_text(content, f"{field}.content", skipped=frozenset({"tool_result"}))
    return [*results, Message(role, told)] if told or not results else results
