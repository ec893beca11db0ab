"""The messages of an episode, in one form for every protocol that an endpoint may use.

Everything that a model sends becomes one of these records, even if it is malformed: a tool call without a name or with
broken arguments is still a tool call, and its result describes the error. No part of an answer is dropped, because
training needs every token that was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from sandrl.runs.rows import MessageRow, ToolCallRow

TOKEN_ID = "token_id:"
"""How a token is written that is named by its number in the vocabulary, by vLLM and ART alike."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by the model, as it wrote it; the id is made up where it gave none."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an episode.

    Attributes:
        role: `system`, `user`, `assistant` or `tool`.
        content: Its text.
        tool_calls: The tools the model calls in it.
        tool_call_id: Of a tool's result: the call it belongs to.
        name: Of a tool's result: the tool.
        tokens: Of what was sampled: each token as the endpoint writes it, where it tells.
        logprobs: The logarithm of each token's probability when it was sampled; one for each of `tokens`.
        finish_reason: Of what was sampled: why it ended, in the endpoint's word.
        seconds: How long it took to make, retries included.
        items: Of what was sampled over the Responses API: its own items, to be sent back as they are.
        reasoning: Of what was sampled: what the model thought before it, where the endpoint returns that beside the
            text. It is kept and shown, and never sent back or taken for a part of the answer.
        is_given: Of the assistant: it was not sampled in this conversation, so it is not trained on here.
    """

    role: str
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    tokens: tuple[str, ...] = field(default=(), repr=False)
    logprobs: tuple[float, ...] = field(default=(), repr=False)
    finish_reason: str | None = None
    seconds: float | None = None
    items: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    reasoning: str = field(default="", repr=False)
    is_given: bool = False

    def to_row(self) -> MessageRow:
        calls = tuple(ToolCallRow(id=call.id, name=call.name, arguments=call.arguments) for call in self.tool_calls)
        return MessageRow(**{name: getattr(self, name) for name in _IN_ROWS}, tool_calls=calls)

    @classmethod
    def from_row(cls, row: MessageRow) -> Self:
        calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in row.tool_calls)
        return cls(**{name: getattr(row, name) for name in _IN_ROWS}, tool_calls=calls)


_IN_ROWS = MessageRow.model_fields.keys() - {"tool_calls"}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer.

    Attributes:
        prompt: The token ids of the conversation that was continued, where the model tells them.
    """

    message: Message
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    prompt: tuple[int, ...] = field(default=(), repr=False)


def plain_text(messages: Sequence[Message]) -> str:
    """A conversation as a text that a base model continues; it was never told of roles."""
    return "\n\n".join(message.content for message in messages) + "\n\n"
