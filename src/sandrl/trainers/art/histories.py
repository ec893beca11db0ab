"""Converts an episode to training histories of ART: one history per model turn, with that turn as its last message.

ART trains the last sampled message of a history and repeats earlier ones in the context of later ones. Each turn
therefore gets a history of its own, in which earlier turns are plain messages: every turn is trained exactly once, in
the context in which it was sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandrl.models.endpoint import chat_message
from sandrl.models.messages import Message
from sandrl.trainers.art.groups import Group, Sample
from sandrl.trainers.art.libraries import load

_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})


def art_group(group: Group, tools: Sequence[Mapping[str, Any]], *, extra: str) -> Any:
    """ART's `TrajectoryGroup` of a group.

    Args:
        group: What was played.
        tools: The tools that were offered, as JSON schemas of functions.
        extra: The extra that ART comes with.
    """
    art = load("art", extra=extra)
    return art.TrajectoryGroup([_trajectory(art, sample, openai_tools(tools), extra) for sample in group.samples])


def openai_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """Tools as a chat completion takes them; None if there are none."""
    return [{"type": "function", "function": tool} for tool in tools] or None


def context(sample: Sample, turn: int) -> list[dict[str, Any]]:
    """The messages before a turn, exactly as they were sent when it was sampled."""
    return [chat_message(message) for message in sample.messages[:turn]]


def _trajectory(art: Any, sample: Sample, tools: list[dict[str, Any]] | None, extra: str) -> Any:
    histories = [
        art.trajectories.History(
            messages_and_choices=[*context(sample, turn), _choice(sample.messages[turn], extra)], tools=tools
        )
        for turn in sample.turns
    ]
    first, *others = histories
    return art.Trajectory(
        messages_and_choices=first.messages_and_choices,
        tools=tools,
        additional_histories=others,
        reward=sample.reward,
        metadata={"id": sample.id},
    )


def _choice(message: Message, extra: str) -> Any:
    """A sampled message as the OpenAI client would have given it."""
    document: dict[str, Any] = {
        "index": 0,
        "finish_reason": message.finish_reason if message.finish_reason in _FINISH_REASONS else "stop",
        "message": {**chat_message(message), "role": "assistant"},
    }
    if message.logprobs:
        pairs = zip(message.tokens, message.logprobs, strict=True)
        document["logprobs"] = {
            "content": [{"token": token, "logprob": logprob, "top_logprobs": []} for token, logprob in pairs]
        }
    return load("openai.types.chat.chat_completion", extra=extra).Choice.model_validate(document)
