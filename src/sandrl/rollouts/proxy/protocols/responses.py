"""OpenAI's responses."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sandrl.events.results import is_cut_off
from sandrl.models.messages import Message, Reply
from sandrl.rollouts.proxy.protocols.request import (
    OPENAI_ALIVE,
    Failure,
    Json,
    Request,
    call,
    content_text,
    event,
    flag,
    function,
    now,
    objects,
    offers_tools,
    openai_failure,
    openai_models,
    other,
    refuse_fields,
    text,
    wrong,
)

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
# Nothing is kept here that a later request could name.
_REFUSED = {"previous_response_id": (), "conversation": (), "background": (False,), "prompt": (), "top_logprobs": (0,)}


class Responses:
    alive = OPENAI_ALIVE
    failure = staticmethod(openai_failure)
    models = staticmethod(openai_models)

    def read(self, document: Json) -> Request:
        refuse_fields(document, _REFUSED)
        refuse_fields(document, {"format": ({"type": "text"},)}, inside="text")
        tools = []
        for place, tool in enumerate(objects(document.get("tools") or [], "tools")):
            field = f"tools[{place}]"
            if tool.get("type") != "function":
                raise wrong(f"{field}: only tools of the type function can be offered{other(tool)}", field)
            tools.append(function(tool, field))
        if not offers_tools(document, none=("none",), auto=("auto",)):
            tools = []
        messages: list[Message] = []
        if instructions := content_text(document.get("instructions"), "instructions"):
            messages.append(Message("system", instructions))
        asked = document.get("input")
        if isinstance(asked, str):
            messages.append(Message("user", text(asked, "input")))
        else:
            for place, item in enumerate(objects(asked, "input")):
                _add(messages, item, f"input[{place}]")
        return Request(
            tuple(messages), tuple(tools), text(document.get("model") or "", "model"), flag(document, "stream")
        )

    def answer(self, request: Request, message: Message, reply: Reply) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        is_cut = is_cut_off(message.finish_reason)
        status = "incomplete" if is_cut else "completed"
        if message.content or not message.tool_calls:
            part = {"type": "output_text", "text": message.content, "annotations": [], "logprobs": []}
            item = {"id": _identifier("msg"), "type": "message", "role": "assistant", "status": status}
            output.append({**item, "content": [part]})
        output += [
            {
                "id": _identifier("fc"),
                "type": "function_call",
                "call_id": each.id,
                "name": each.name,
                "arguments": each.arguments,
                "status": status,
            }
            for each in message.tool_calls
        ]
        return {
            "id": _identifier("resp"),
            "object": "response",
            "created_at": now(),
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": None,
            "metadata": {},
            "model": request.model,
            "output": output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [{"type": "function", "strict": False, **tool} for tool in request.tools],
            "top_p": None,
            "usage": {
                "input_tokens": reply.prompt_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": reply.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": reply.prompt_tokens + reply.completion_tokens,
            },
        }

    def events(self, request: Request, document: Json) -> Iterator[bytes]:
        number = 0

        def made(kind: str, **told: Any) -> bytes:
            nonlocal number
            number += 1
            return event({"type": kind, "sequence_number": number - 1, **told}, kind)

        begun = {**document, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        yield made("response.created", response=begun)
        yield made("response.in_progress", response=begun)
        for place, item in enumerate(document["output"]):
            at = {"item_id": item["id"], "output_index": place}
            if item["type"] == "message":
                (part,) = item["content"]
                inner = {**at, "content_index": 0}
                empty = {**item, "status": "in_progress", "content": []}
                yield made("response.output_item.added", output_index=place, item=empty)
                yield made("response.content_part.added", **inner, part={**part, "text": ""})
                yield made("response.output_text.delta", **inner, delta=part["text"], logprobs=[])
                yield made("response.output_text.done", **inner, text=part["text"], logprobs=[])
                yield made("response.content_part.done", **inner, part=part)
            else:
                empty = {**item, "status": "in_progress", "arguments": ""}
                yield made("response.output_item.added", output_index=place, item=empty)
                yield made("response.function_call_arguments.delta", **at, delta=item["arguments"])
                told = {"name": item["name"], "arguments": item["arguments"]}
                yield made("response.function_call_arguments.done", **at, **told)
            yield made("response.output_item.done", output_index=place, item=item)
        yield made(f"response.{document['status']}", response=document)

    def broken(self, failure: Failure) -> bytes:
        told = {"code": failure.code or failure.kind, "message": failure.message, "param": failure.field}
        return event({"type": "error", "sequence_number": 0, **told}, "error")


def _identifier(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


# Adds an item; calls belong to the answer just before them.
def _add(messages: list[Message], item: Json, field: str) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        role = _ROLES.get(text(item.get("role"), f"{field}.role"))
        if role is None:
            raise wrong(f"{field}.role: must be one of {', '.join(_ROLES)}", field)
        messages.append(Message(role, content_text(item.get("content"), f"{field}.content")))
    elif kind == "function_call":
        made = call(item.get("call_id"), item.get("name"), item.get("arguments"), field)
        if messages and messages[-1].role == "assistant":
            messages[-1] = replace(messages[-1], tool_calls=(*messages[-1].tool_calls, made))
        else:
            messages.append(Message("assistant", tool_calls=(made,)))
    elif kind == "function_call_output":
        output = content_text(item.get("output"), f"{field}.output", is_of_tool=True)
        messages.append(Message("tool", output, tool_call_id=text(item.get("call_id"), f"{field}.call_id")))
    elif kind != "reasoning":
        raise wrong(f"{field}: the policy cannot read items of the type {str(kind)[:100]!r}", field)
