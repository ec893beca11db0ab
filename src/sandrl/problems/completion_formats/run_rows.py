"""Rows of sandrl's runs: `trajectories.jsonl`, and the `answers.jsonl` of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.problems.completion_formats.format import Answer, CompletionFormat, Reading
from sandrl.problems.completion_formats.texts import checked_text


def _trajectory(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    # What was extracted from the text is beside it.
    if "completion" in value:
        return [Answer(checked_text(value["completion"], "completion"))]
    return [Answer(code=checked_text(value["code"], "code"))]


def _answer(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    if "text" in value:
        return [Answer(checked_text(value["text"], "text"))]
    return [Answer(loss=checked_text(value["failure"], "failure") or "the model gave no answer")]


TRAJECTORIES = CompletionFormat(
    "a run's trajectories", (("task_id",), ("status",), ("duration_seconds",), ("completion", "code")), _trajectory
)
ANSWERS = CompletionFormat(
    "an evaluation's answers", (("task_id",), ("job_id",), ("index",), ("text", "failure")), _answer
)
