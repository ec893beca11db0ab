"""Conversations, as chat logs, TRL and verifiers write them: the last message of the assistant is the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.problems.completion_formats.format import TASK_FIELDS, Answer, CompletionFormat, Reading
from sandrl.problems.completion_formats.texts import answers_last, texts_of

_FIELDS = ("messages", "conversations", "conversation", "trajectory", "chat", "dialogue")


def _field(value: Mapping[str, Any]) -> str | None:
    return next((each for each in _FIELDS if answers_last(value.get(each))), None)


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    field = _field(value) or next(each for each in _FIELDS if each in value)
    return [Answer(text) for text in texts_of(value[field], field)]


MESSAGES = CompletionFormat("messages", (TASK_FIELDS, _FIELDS), _answers)
