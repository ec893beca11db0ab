"""Converts conversations of TRL and transformers to the messages that a run stores.

Content that cannot be parsed is stored as text. Policies write arbitrary text, templates parse it in different ways,
and a dropped message could be the one that explains the reward.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sandrl.rewards.trainer_batch import Message, Text, text_of
from sandrl.rollouts.toolbox import EpisodeEnd
from sandrl.runs import MessageRow, ToolCallRow

# Where templates put what a model thinks before it answers.
_THOUGHTS = ("reasoning_content", "thinking")

AS_WRITTEN = ""
"""The argument of a call that stands for all of them, where they are no object: so TRL can pass them on."""


def message_rows(prompt: Text, completion: Text) -> tuple[MessageRow, ...]:
    """The messages of an episode: those of its prompt, those of the policy, and the results of its tools.

    Args:
        prompt: What the policy was asked.
        completion: What came of it, results of tools included.
    """
    return (*_rows(prompt, role="user"), *_rows(completion, role="assistant"))


def episode_end(messages: Sequence[MessageRow]) -> EpisodeEnd:
    """Why an episode ended that its tools have not: TRL takes back what is too long, the answers to calls included."""
    last = messages[-1]
    is_last_word = last.role == "assistant" and not last.tool_calls
    return EpisodeEnd.NO_TOOL_CALLS if is_last_word else EpisodeEnd.TOO_LONG


def written(value: Any) -> str:
    """What a model has written: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _rows(said: Text, *, role: str) -> list[MessageRow]:
    if isinstance(said, str):
        return [MessageRow(role=role, content=said)]
    return [_row(message, role) for message in said]


def _row(message: Message, role: str) -> MessageRow:
    thoughts = [f"<think>\n{message[name]}\n</think>\n" for name in _THOUGHTS if message.get(name)]
    calls = message.get("tool_calls")
    name = message.get("name")
    return MessageRow(
        role=str(message.get("role") or role),
        content="".join([*thoughts, text_of((message,))]),
        tool_calls=tuple(_call(call) for call in calls) if isinstance(calls, list | tuple) else (),
        name=None if name is None else str(name),
        tool_call_id=None if message.get("tool_call_id") is None else str(message["tool_call_id"]),
    )


def _call(call: Any) -> ToolCallRow:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return ToolCallRow(name="", arguments=written(call))
    arguments = function.get("arguments", "")
    return ToolCallRow(
        name=str(function.get("name") or ""),
        arguments=written(arguments.get(AS_WRITTEN, arguments) if isinstance(arguments, Mapping) else arguments),
        id=str(call.get("id") or ""),
    )
