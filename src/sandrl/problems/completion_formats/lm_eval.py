"""lm-eval's `samples_*.jsonl`: `resps` is what the model wrote, `filtered_resps` what the task's filter made of it.

The filtered texts are judged, as lm-eval does: for some tasks only the filter adds the prompt that the model has
continued. If a filter keeps the first sample alone, the unfiltered texts of all samples are taken. A task
with several filters has a row for each of them, and the rows of its first filter are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.completion_formats.format import TASK_FIELDS, Answer, CompletionFormat, Reading, Task, named_task
from sandrl.problems.completion_formats.texts import code_answer, texts_of


def _answers(value: Mapping[str, Any], reading: Reading) -> list[Answer]:
    name = value.get("filter")
    if name is not None and reading.kept.setdefault("lm-eval's filter", name) != name:
        return []
    texts = [texts_of(value[field], field) for field in ("filtered_resps", "resps") if field in value]
    chosen = texts[-1] if len(texts[0]) < len(texts[-1]) else texts[0]
    return [code_answer(text) for text in chosen]


def _task(value: Mapping[str, Any], reading: Reading) -> Task:
    doc = value.get("doc")
    if isinstance(doc, Mapping) and any(doc.get(field) is not None for field in TASK_FIELDS):
        found = named_task(doc, reading)
        return Task(found.name, f"doc.{found.field}")
    position = value["doc_id"]
    if not isinstance(position, int) or isinstance(position, bool):
        raise InputError("must be an integer", field="doc_id")
    reading.kept["positions"] = True
    return reading.at(position, "doc_id")


LM_EVAL = CompletionFormat("lm-eval", (("doc_id",), ("resps", "filtered_resps")), _answers, _task)
