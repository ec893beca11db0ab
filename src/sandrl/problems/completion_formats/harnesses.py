"""The formats of completions that evaluation harnesses write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import type_name
from sandrl.problems.completion import Completion
from sandrl.problems.completion_formats.format import (
    TASK_FIELDS,
    CompletionFormat,
    ReadContext,
    Task,
    answer,
    checked_text,
    code_answer,
    named_task,
    texts_of,
)
from sandrl.problems.formats.texts import json_value

# bigcode-evaluation-harness: a JSON array with the programs for each problem, in the order of the problems.
ENTRY = "the entry"
"""The field of a row that is made of an entry that is no object."""


def _code_in(field: str) -> Callable[[Mapping[str, Any], ReadContext], list[Completion]]:
    return lambda value, _: [code_answer(text) for text in texts_of(value[field], field)]


def _bigcode_task(_: Mapping[str, Any], reading: ReadContext) -> Task:
    reading.positions += 1
    return reading.at(reading.line - 1, ENTRY)


BIGCODE = CompletionFormat("bigcode-evaluation-harness", ((ENTRY,),), _code_in(ENTRY), _bigcode_task)


# EvalPlus: `solution` is a whole program; its raw files have the text of the model there.
def _evalplus_task(value: Mapping[str, Any], reading: ReadContext) -> Task:
    found = named_task(value, reading)
    if reading.known is None or found.name in reading.known:
        return found
    # The folder of a problem has a `_` for the `/` of its name.
    folders = reading.kept.get("folders")
    if folders is None:
        folders = reading.kept["folders"] = {name.replace("/", "_"): name for name in reading.by_position}
    return Task(folders.get(found.name, found.name), found.field)


EVALPLUS = CompletionFormat("EvalPlus", (TASK_FIELDS, ("solution",)), _code_in("solution"), _evalplus_task)


# lm-eval's `samples_*.jsonl`. The filtered texts are judged, as lm-eval does: for some tasks only the filter adds the
# prompt that the model has continued. If a filter keeps the first sample alone, the unfiltered texts of all samples are
# taken. A task with several filters has a row for each of them, and the rows of its first filter are taken.
def _lm_eval_answers(value: Mapping[str, Any], reading: ReadContext) -> list[Completion]:
    name = value.get("filter")
    if name is not None and reading.kept.setdefault("lm-eval's filter", name) != name:
        return []
    texts = [texts_of(value[field], field) for field in ("filtered_resps", "resps") if field in value]
    chosen = texts[-1] if len(texts[0]) < len(texts[-1]) else texts[0]
    return [code_answer(text) for text in chosen]


def _lm_eval_task(value: Mapping[str, Any], reading: ReadContext) -> Task:
    doc = value.get("doc")
    if isinstance(doc, Mapping) and any(doc.get(field) is not None for field in TASK_FIELDS):
        found = named_task(doc, reading)
        return Task(found.name, f"doc.{found.field}")
    position = value["doc_id"]
    if not isinstance(position, int) or isinstance(position, bool):
        raise InputError("must be an integer", field="doc_id")
    return reading.at(position, "doc_id")


LM_EVAL = CompletionFormat("lm-eval", (("doc_id",), ("resps", "filtered_resps")), _lm_eval_answers, _lm_eval_task)


# LiveCodeBench's results: `code_list` has the code of each sample, `output_list` the text it was taken from.
def _live_code_bench_answers(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    if "code_list" not in value:
        return [answer(text) for text in texts_of(value["output_list"], "output_list", is_list=True)]
    codes = json_value(value["code_list"], "code_list")
    if not isinstance(codes, list):
        raise InputError(f"must be an array, not {type_name(codes)}", field="code_list")
    if not codes:
        raise InputError("is empty: it has no sample", field="code_list")
    return [answer(code=checked_text(code, f"code_list[{number}]")) for number, code in enumerate(codes)]


LIVE_CODE_BENCH = CompletionFormat(
    "LiveCodeBench", (TASK_FIELDS, ("code_list", "output_list")), _live_code_bench_answers
)


# Samples of an inspect log, of a `.eval` or a JSON file: epochs are the samples of a problem.
_ATTACHMENT = "attachment://"


def _inspect_answers(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    output = value.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    if isinstance(output, Mapping) and not choices and "completion" in output and "error" not in value:
        return [answer(_inspect_whole(checked_text(output["completion"], "output.completion"), value))]
    if not choices and (
        reason := _inspect_error(value.get("error")) or (isinstance(output, Mapping) and output.get("error"))
    ):
        return [answer(loss=f"the sample failed: {reason}"[:1000])]
    return [
        answer(_inspect_whole(text, value))
        for text in texts_of(choices or output, "output.choices" if choices else "output")
    ]


def _inspect_error(value: object) -> str:
    text = value.get("message") if isinstance(value, Mapping) else value
    return " ".join(str(text).split()) if text else ""


# A text, which a log may keep apart from its message.
def _inspect_whole(text: str, value: Mapping[str, Any]) -> str:
    attachments = value.get("attachments")
    if text.startswith(_ATTACHMENT) and isinstance(attachments, Mapping):
        return str(attachments.get(text.removeprefix(_ATTACHMENT), text))
    return text


INSPECT = CompletionFormat("inspect", (("id",), ("epoch",), ("output", "error")), _inspect_answers)
