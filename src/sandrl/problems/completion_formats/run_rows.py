"""Rows of sandrl's runs: `trajectories.jsonl`, and the `answers.jsonl` of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.problems.completion_formats.format import Answer, CompletionFormat, Reading
from sandrl.problems.completion_formats.texts import checked_text


def _trajectory(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    # What was extracted from the text is beside it.
    if "completion" in value:
        return [_told(checked_text(value["completion"], "completion"), value)]
    return [Answer(code=checked_text(value["code"], "code"))]


def _told(text: str, value: Mapping[str, Any]) -> Answer:
    reasoning, tokens = value.get("reasoning"), value.get("tokens")
    count = tokens.get("completion") if isinstance(tokens, Mapping) else None
    return Answer(
        text,
        reasoning=reasoning if isinstance(reasoning, str) else "",
        tokens=count if isinstance(count, int) and count else None,
    )


def _answer(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    if "text" in value:
        return [_told(checked_text(value["text"], "text"), value)]
    return [Answer(loss=checked_text(value["failure"], "failure") or "the model gave no answer")]


TRAJECTORIES = CompletionFormat(
    "a run's trajectories", (("task_id",), ("status",), ("duration_seconds",), ("completion", "code")), _trajectory
)
ANSWERS = CompletionFormat(
    "an evaluation's answers", (("task_id",), ("job_id",), ("index",), ("text", "failure")), _answer
)
