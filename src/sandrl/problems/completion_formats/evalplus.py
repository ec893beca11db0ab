"""EvalPlus: `solution` is a whole program; its raw files have the text of the model there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.problems.completion_formats.format import TASK_FIELDS, Answer, CompletionFormat, Reading, Task, named_task
from sandrl.problems.completion_formats.texts import code_answer, texts_of


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    return [code_answer(text) for text in texts_of(value["solution"], "solution")]


def _task(value: Mapping[str, Any], reading: Reading) -> Task:
    found = named_task(value, reading)
    if reading.known is None or found.name in reading.known:
        return found
    # The folder of a problem has a `_` for the `/` of its name.
    folders = reading.kept.get("folders")
    if folders is None:
        folders = reading.kept["folders"] = {name.replace("/", "_"): name for name in reading.by_position}
    return Task(folders.get(found.name, found.name), found.field)


EVALPLUS = CompletionFormat("EvalPlus", (TASK_FIELDS, ("solution",)), _answers, _task)
