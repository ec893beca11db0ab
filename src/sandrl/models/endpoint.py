"""A model behind an endpoint: it gets a conversation and returns the next message.

Chat completions are tried first, because every server has them; the Responses API is used only if the endpoint's error
says that a model requires it, and completions of texts if the model has no chat template. A parameter that a server
rejects is left out from then on, because only the endpoint can say which model accepts which. A parameter that the user
asked for is never left out: the error names its option. Each answer is a request of its own, because servers differ in
how they handle `n`.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, TypeAlias

from sandrl.errors import EndpointError, InputError, RequestRefusedError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.models.client import Client, ModelEndpoint
from sandrl.models.loop import LOOP, cancel_once
from sandrl.models.messages import TOKEN_ID, Message, Reply, ToolCall, plain_text
from sandrl.models.protocol import Answer, Question, Sampling, TokenLimit

Json: TypeAlias = Mapping[str, Any]

BATCH_SIZE = 32
"""How many questions are in flight at once, by default."""

# What a question can do without, and what is sent instead.
_OPTIONAL: Mapping[str, str | None] = {
    "max_tokens": "max_completion_tokens",
    "temperature": None,
    "top_p": None,
    "seed": None,
    "logprobs": None,
    "include": None,
    "return_token_ids": None,
}
_SHOWN_MODELS = 5
_CHAT, _RESPONSES, _COMPLETIONS = "chat/completions", "responses", "completions"
# What is asked of chat completions alone: there `logprobs` is no number of tokens.
_UNKNOWN = {
    _CHAT: (),
    _RESPONSES: ("seed", "logprobs", "return_token_ids"),
    _COMPLETIONS: ("logprobs", "return_token_ids"),
}
# The longest text of a base model, unless the user says another.
_TEXT_TOKENS = 2048
# What servers call the length of a model's context, in their lists of models.
_CONTEXTS = ("max_model_len", "context_length", "max_context_length", "context_window", "max_input_tokens")


class EndpointModel(Client):
    """A model behind an endpoint; threads may share one.

    Args:
        name: What it is called there; None for the only one that `check` finds.
        tells_tokens: Ask for the ids of the tokens of prompts and answers, as vLLM tells them, until they are refused.
    """

    has_tools = True

    def __init__(
        self,
        endpoint: ModelEndpoint,
        name: str | None,
        sampling: Sampling | None = None,
        *,
        stop: threading.Event | None = None,
        batch_size: int | None = None,
        emit: Emit = ignore,
        is_stopping: Callable[[], bool] = lambda: False,
        tells_tokens: bool = False,
    ) -> None:
        super().__init__(endpoint, stop, emit, is_stopping)
        self._tells_tokens = tells_tokens
        self.name = name or ""
        self.batch_size = batch_size or BATCH_SIZE
        self._sampling = sampling or Sampling()
        self._api = _CHAT
        self._context_tokens: int | None = None
        self._renamed: dict[str, str | None] = {}
        self._is_known = False

    @property
    def base_url(self) -> str:
        return self.endpoint.base_url

    @property
    def limit(self) -> TokenLimit:
        """The longest answer. A limit is sent only if the user sets one, because only the server can count a prompt."""
        if self._sampling.max_tokens is not None:
            return TokenLimit(self._sampling.max_tokens, "requested")
        known = self._context_tokens
        context = f"; the context of {self.name} has {known} tokens" if known else ""
        return TokenLimit(None, f"the endpoint decides, because no limit is sent{context}")

    def check(self) -> None:
        """Finds out, in seconds and without spending a token, whether the model can be asked.

        Raises:
            EndpointError: If the endpoint cannot be reached.
            AuthenticationError: If it refuses the key.
            UsageError: If it says that it has no such model, or none is named and it has not exactly one.
        """
        listed = {str(each.get("id")): each for each in map(_object, _list((self.look("models") or {}).get("data")))}
        names = list(listed)
        if not self.name:
            self.name = self._only(names)
        elif names and self.name not in names:
            raise self._unknown(names)
        told = _object(listed.get(self.name))
        self._context_tokens = next((count for name in _CONTEXTS if (count := _count(told, name))), None)

    def reply(
        self, messages: Sequence[Message], tools: Sequence[Json] = (), *, stop: threading.Event | None = None
    ) -> Reply:
        own = {"logprobs": True, **({"return_token_ids": True} if self._tells_tokens else {})}
        return self.run(self._reply(messages, tools, own), stop)

    def answers(self, questions: Sequence[Question]) -> Iterator[Answer]:
        found: SimpleQueue[Answer | BaseException | None] = SimpleQueue()
        asking = LOOP.submit(self._ask_all(questions, found))
        asking.add_done_callback(lambda _: found.put(None))
        try:
            while (answer := found.get()) is not None:
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            asking.cancel()

    async def _ask_all(self, questions: Sequence[Question], found: SimpleQueue[Answer | BaseException | None]) -> None:
        waiting = iter(questions)

        async def work() -> None:
            for question in waiting:
                found.put(await self._answer(question))

        # As many as there are requests in flight: a question waits in a list, not in a task.
        workers = [asyncio.create_task(work()) for _ in range(min(self.batch_size, len(questions)))]
        try:
            await asyncio.gather(*workers)
        except Exception as error:  # noqa: BLE001 - it is raised again, in the thread that waits for answers
            found.put(error)
        finally:
            cancel_once(workers)
            await asyncio.gather(*workers, return_exceptions=True)

    async def _answer(self, question: Question) -> Answer:
        # The whole distribution is sampled from, whatever the server's own settings are.
        asked = {"seed": question.seed, "top_p": 1.0}
        try:
            return Answer(question.number, await self._reply(question.messages, (), asked))
        except (EndpointError, RequestRefusedError) as error:
            return Answer(question.number, None, error.message, is_lost=isinstance(error, EndpointError))

    async def _reply(self, messages: Sequence[Message], tools: Sequence[Json], own: Json) -> Reply:
        began = time.monotonic()
        while True:
            api = self._api
            read = {_CHAT: _chat_reply, _RESPONSES: _responses_reply, _COMPLETIONS: _text_reply}[api]
            question = self._question(api, messages, tools, own)
            try:
                asked = await self.request(api, question, read)
            except RequestRefusedError as refusal:
                if self._is_known:
                    # What it took once, it takes: a refusal may repeat what a model, or its agent, has written.
                    raise
                self._learn(refusal, question, api)
            else:
                self._is_known = True
                reply, seconds = asked.answer, time.monotonic() - began - asked.waited_seconds
                limit, reason = self._sampling.max_tokens, reply.message.finish_reason
                if reason is None and limit is not None and reply.completion_tokens >= limit:
                    # The server does not say why it ended.
                    reason = "length"
                message = replace(reply.message, seconds=seconds, finish_reason=reason)
                return replace(reply, message=message, retries=asked.retries)

    def _learn(self, refusal: RequestRefusedError, question: Json, api: str) -> None:
        message = refusal.message.lower()
        if refusal.status in (400, 404, 405) and _CHAT in message and _RESPONSES in message:
            self._api = _RESPONSES
            return
        if api == _CHAT and "chat template" in message:
            self._use_text()
            return
        if refusal.status in (404, 405) and not refusal.is_of_api:
            if api == _COMPLETIONS or (api == _RESPONSES and "tools" in question):
                raise EndpointError(
                    f"{self.base_url} has neither chat completions nor the Responses API",
                    hint="check the address; it usually ends in /v1",
                ) from refusal
            # The Responses API has no stop strings.
            if api == _CHAT and not self._sampling.stop:
                self._api = _RESPONSES
            else:
                self._use_text()
            return
        if refusal.status == 404:
            raise self._unknown(()) from refusal
        own = {**self._sampling.chosen, **({"stop": 0} if self._sampling.stop else {}), **self._sampling.extra_body}
        for name in own:
            if refusal.parameter.partition(".")[0] == name or f"'{name}'" in message or f'"{name}"' in message:
                option = "extra_body" if name in self._sampling.extra_body else name
                what = "it" if option == name else name
                message = f"{option}: the endpoint does not take {what}: {refusal.message}"
                raise UsageError(message, hint="leave it out", fields=(option,)) from refusal
        for name, other in _OPTIONAL.items():
            if name in question and (refusal.parameter == name or f"'{name}'" in message):
                self._renamed[name] = other
                if name == "temperature":
                    told = f"{self.base_url} takes no temperature for {self.name}; it samples in its own way"
                    self._tell(Warned(told))
                return
        raise refusal

    def _use_text(self) -> None:
        if self._api == _COMPLETIONS:
            return
        self._api = _COMPLETIONS
        told = f"{self.base_url} has no chat for {self.name}, which continues the text of the conversation instead"
        if self._sampling.max_tokens is None:
            told += f", with at most {_TEXT_TOKENS} tokens"
        self._tell(Warned(told, "set another limit with `max_tokens`, and its end with `stop`", ("max_tokens", "stop")))

    def _only(self, names: Sequence[str]) -> str:
        if len(names) != 1:
            some = f"{len(names)} models" if names else "no model"
            listed = f": {', '.join(names[:10])}" if names else ""
            message = f"{self.base_url} offers {some}{listed}"
            is_whole = names or self.base_url.rstrip("/").endswith("/v1")
            address = (
                "" if is_whole else f", or {self.base_url.rstrip('/')}/v1 as `base_url`: most servers answer there"
            )
            raise InputError(message, hint=f"name one with `model`{address}", fields=("model", "base_url"))
        return names[0]

    def _unknown(self, names: Sequence[str]) -> UsageError:
        shown = nearest_names(self.name, names)
        return UsageError(
            f"{self.base_url} has no model {self.name!r}",
            hint="set `model` to one of its models" + (f": {shown}" if shown else ""),
            fields=("model",),
        )

    def _question(self, api: str, messages: Sequence[Message], tools: Sequence[Json], own: Json) -> dict[str, Any]:
        sampling, extra = self._sampling, dict(self._sampling.extra_body)
        if api == _CHAT:
            question: dict[str, Any] = {"messages": list(map(chat_message, messages)), **self._limit_as("max_tokens")}
            described = [{"type": "function", "function": tool} for tool in tools]
        elif api == _RESPONSES:
            question = self._responses_part(messages)
            described = [{"type": "function", **tool} for tool in tools]
        else:
            if tools:
                raise UsageError(f"{self.name} at {self.base_url} has no chat, and so no tools to call")
            # Servers would end a text after 16 tokens.
            question = {"prompt": _sendable(plain_text(messages)), "max_tokens": sampling.max_tokens or _TEXT_TOKENS}
            extra.pop("chat_template_kwargs", None)
        question |= {"model": self.name, "temperature": sampling.temperature}
        question |= {name: value for name, value in own.items() if name not in _UNKNOWN[api]} | sampling.chosen
        question |= {"stop": list(sampling.stop)} if sampling.stop else {}
        question |= extra | ({"tools": described} if tools else {})
        for name, other in self._renamed.items():
            value = question.pop(name, None)
            if other is not None and value is not None:
                question[other] = value
        return question

    def _responses_part(self, messages: Sequence[Message]) -> dict[str, Any]:
        if self._sampling.stop:
            message = f"stop: {self.base_url} has only the Responses API for {self.name}, which has no stop strings"
            raise UsageError(message, hint="leave it out", fields=("stop",))
        return {
            "input": [item for message in messages for item in _items(message)],
            **self._limit_as("max_output_tokens"),
            # Nothing stays at the endpoint; what it thought comes back to it with the next question.
            "store": False,
            "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        }

    def _limit_as(self, name: str) -> dict[str, int]:
        return {} if self._sampling.max_tokens is None else {name: self._sampling.max_tokens}


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
                "function": {"name": _tool_name(call.name), "arguments": json_arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        document["tool_call_id"] = message.tool_call_id
    return document


def _items(message: Message) -> list[Json]:
    if message.items:
        return [
            {**item, "arguments": json_arguments(str(item.get("arguments", "")))}
            if item.get("type") == "function_call"
            else item
            for item in message.items
        ]
    if message.role == "tool":
        output = _sendable(message.content)
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": output}]
    return [{"role": message.role, "content": _sendable(message.content)}]


# What a model called as a tool; servers refuse names that no tool can have, and with them the conversation.
def _tool_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"


# How much is repeated of arguments that are no JSON: a model that has written megabytes would read them in each turn.
_MALFORMED_CHARACTERS = 2000


# The text without halves of surrogate pairs, which no server accepts.
def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def json_arguments(arguments: str) -> str:
    """What a model wrote as arguments; what is no JSON, which servers that parse it refuse, as a text in JSON."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    return _sendable(arguments) if is_object else json.dumps({"malformed": _sendable(_cut(arguments))})


def _cut(text: str) -> str:
    if len(text) <= _MALFORMED_CHARACTERS:
        return text
    half = _MALFORMED_CHARACTERS // 2
    return f"{text[:half]}… {len(text) - 2 * half:,} characters left out …{text[-half:]}"


def _chat_reply(document: Json) -> Reply:
    choice = _first(document.get("choices"))
    said = choice.get("message")
    if not isinstance(said, dict):
        raise ValueError("the answer has no message")
    calls = map(_object, _list(said.get("tool_calls")))
    tokens, logprobs = _logprobs(_object(choice.get("logprobs")).get("content"))
    sampled = _ids(choice.get("token_ids"))
    if sampled and len(sampled) == len(logprobs):
        tokens = tuple(f"{TOKEN_ID}{token}" for token in sampled)
    usage = _object(document.get("usage"))
    message = Message(
        "assistant",
        _text(said.get("content")),
        tuple(_call(call.get("id"), _object(call.get("function"))) for call in calls),
        tokens=tokens,
        logprobs=logprobs,
        finish_reason=_text(choice.get("finish_reason")) or None,
        reasoning=_reasoning(said),
    )
    # Of an answer with one choice, vLLM tells the prompt beside it.
    prompt = _ids(document.get("prompt_token_ids"))
    return Reply(message, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"), prompt=prompt)


def _text_reply(document: Json) -> Reply:
    choice = _first(document.get("choices"))
    text = choice.get("text")
    if not isinstance(text, str):
        raise ValueError("the answer has no text")
    usage = _object(document.get("usage"))
    message = Message("assistant", text, finish_reason=_text(choice.get("finish_reason")) or None)
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
        tuple(_call(item.get("call_id"), item) for item in items if item.get("type") == "function_call"),
        tokens=tuple(token for tokens, _ in found for token in tokens),
        logprobs=tuple(logprob for _, logprobs in found for logprob in logprobs),
        # What ended it is told apart only where it is incomplete.
        finish_reason=_text(_object(document.get("incomplete_details")).get("reason"))
        or _text(document.get("status"))
        or None,
        items=tuple(items),
        reasoning="\n".join(
            _text(item.get("content")) or _text(item.get("summary"))
            for item in items
            if item.get("type") == "reasoning"
        ),
    )
    return Reply(message, _count(usage, "input_tokens"), _count(usage, "output_tokens"))


def _call(identifier: object, function: Json) -> ToolCall:
    arguments = function.get("arguments")
    written = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    return ToolCall(_text(identifier) or f"call_{secrets.token_hex(8)}", _text(function.get("name")), written)


# Tokens and their logprobs; none at all unless there is a number for every one.
def _logprobs(content: object) -> tuple[tuple[str, ...], tuple[float, ...]]:
    entries = [_object(entry) for entry in _list(content)]
    logprobs = tuple(float(each["logprob"]) for each in entries if isinstance(each.get("logprob"), int | float))
    if len(logprobs) < len(entries):
        return (), ()
    return tuple(_text(entry.get("token")) for entry in entries), logprobs


# Token ids; none at all unless every one is a number.
def _ids(value: object) -> tuple[int, ...]:
    ids = _list(value)
    return tuple(ids) if all(type(each) is int for each in ids) else ()


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    parts = [part for part in map(_object, _list(value)) if part.get("type") not in ("thinking", "reasoning")]
    return "".join(_text(part.get("text")) for part in parts)


def _reasoning(said: Json) -> str:
    parts = [part for part in _list(said.get("content")) if _object(part).get("type") in ("thinking", "reasoning")]
    thoughts: tuple[Any, ...] = (said.get("reasoning_content"), said.get("reasoning"), said.get("thinking"))
    thoughts += tuple(part.get("thinking") or part.get("text") for part in parts)
    texts = [_text(each.get("text") if isinstance(each, dict) else each) for each in thoughts]
    return next((text for text in texts if text.strip()), "")


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _first(value: object) -> Json:
    return _object(next(iter(_list(value)), None))


def _count(usage: Json, name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0
