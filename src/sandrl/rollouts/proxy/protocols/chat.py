"""OpenAI's chat completions."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
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

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_REFUSED = {
    "n": (1,),
    "stop": (),
    "logprobs": (False,),
    "logit_bias": (),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "functions": (),
    "prediction": (),
}


class Chat:
    alive = OPENAI_ALIVE
    failure = staticmethod(openai_failure)
    models = staticmethod(openai_models)

    def read(self, document: Json) -> Request:
        refuse_fields(document, _REFUSED)
        tools = []
        for place, tool in enumerate(objects(document.get("tools") or [], "tools")):
            field = f"tools[{place}]"
            if tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
                raise wrong(f"{field}: only tools of the type function can be offered{other(tool)}", field)
            tools.append(function(tool["function"], field))
        if not offers_tools(document, none=("none",), auto=("auto",)):
            tools = []
        options = document.get("stream_options")
        return Request(
            tuple(
                _message(each, f"messages[{place}]")
                for place, each in enumerate(objects(document.get("messages"), "messages"))
            ),
            tuple(tools),
            text(document.get("model") or "", "model"),
            flag(document, "stream"),
            isinstance(options, dict) and options.get("include_usage") is True,
        )

    def answer(self, request: Request, message: Message, reply: Reply) -> dict[str, Any]:
        said: dict[str, Any] = {"role": "assistant", "content": message.content, "refusal": None}
        if message.tool_calls:
            said["content"] = message.content or None
            said["tool_calls"] = [
                {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
                for each in message.tool_calls
            ]
        reason = "tool_calls" if message.tool_calls else "stop"
        reason = "length" if is_cut_off(message.finish_reason) else reason
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": now(),
            "model": request.model,
            "choices": [{"index": 0, "message": said, "finish_reason": reason, "logprobs": None}],
            "usage": {
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
                "total_tokens": reply.prompt_tokens + reply.completion_tokens,
            },
        }

    def events(self, request: Request, document: Json) -> Iterator[bytes]:
        (choice,) = document["choices"]
        head = {name: document[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

        def chunk(delta: Json, reason: str | None = None) -> bytes:
            return event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        said = choice["message"]
        yield chunk({"role": "assistant", "content": ""})
        if said["content"]:
            yield chunk({"content": said["content"]})
        for place, each in enumerate(said.get("tool_calls", ())):
            yield chunk({"tool_calls": [{"index": place, **each}]})
        yield chunk({}, choice["finish_reason"])
        if request.tells_usage:
            yield event({**head, "choices": [], "usage": document["usage"]})
        yield b"data: [DONE]\n\n"

    def broken(self, failure: Failure) -> bytes:
        return b"data: " + openai_failure(failure) + b"\n\n"


def _message(said: Json, field: str) -> Message:
    role = _ROLES.get(text(said.get("role"), f"{field}.role"))
    if role is None:
        raise wrong(f"{field}.role: must be one of {', '.join(_ROLES)}", field)
    content = content_text(said.get("content"), f"{field}.content", is_of_tool=role == "tool")
    if role == "tool":
        return Message(role, content, tool_call_id=text(said.get("tool_call_id"), f"{field}.tool_call_id"))
    if role != "assistant":
        return Message(role, content)
    calls = []
    for place, each in enumerate(objects(said.get("tool_calls") or [], f"{field}.tool_calls")):
        at = f"{field}.tool_calls[{place}]"
        called = each.get("function")
        if not isinstance(called, dict):
            raise wrong(f"{at}: must be a call of a function", at)
        calls.append(call(each.get("id"), called.get("name"), called.get("arguments") or "", at))
    return Message(role, content, tuple(calls))
