"""The formats of rows of completions, and the recognition of a row's format.

As with problems, formats are tried in the order of a table, and the first match is the format of the row. Rows of one
file may have several formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.completion import Completion
from sandrl.problems.completion_formats.format import TASK_FIELDS, CompletionFormat, ReadContext, Task, finish_reasons
from sandrl.problems.completion_formats.harnesses import BIGCODE, EVALPLUS, INSPECT, LIVE_CODE_BENCH, LM_EVAL
from sandrl.problems.completion_formats.predictions import MULTI_SWE, SWE_BENCH
from sandrl.problems.completion_formats.rows import (
    ANSWERS,
    DOUBTFUL_SAMPLES,
    MESSAGES,
    OPENAI_BATCH,
    OWN,
    SAMPLES,
    STATES,
    TRAJECTORIES,
)
from sandrl.problems.recognition import nearest_of, unknown_fields

COMPLETION_FORMATS = (
    BIGCODE,
    TRAJECTORIES,
    ANSWERS,
    OPENAI_BATCH,
    LM_EVAL,
    LIVE_CODE_BENCH,
    INSPECT,
    OWN,
    SWE_BENCH,
    MULTI_SWE,
    STATES,
    EVALPLUS,
    SAMPLES,
    MESSAGES,
    DOUBTFUL_SAMPLES,
)
"""In the order in which they are tried."""

NAMING = (OWN, STATES, TRAJECTORIES, ANSWERS)
"""Formats whose `id` names a completion, where another field names the problem."""


@dataclass(frozen=True, slots=True)
class ParsedCompletions:
    """The completions of a row, in its order and without names, and the problem that they answer."""

    task: Task
    answers: list[Completion]
    format: CompletionFormat


def parse_completions(value: Mapping[str, Any], reading: ReadContext) -> ParsedCompletions:
    nulls = [name for name, each in value.items() if each is None]
    value = {name: each for name, each in value.items() if each is not None}
    found = next((each for each in COMPLETION_FORMATS if each.has_fields(value)), None)
    if found is None:
        raise _null_field(value, nulls) or _unknown(value, reading)
    task = found.task(value, reading)
    answers = found.answers(value, reading)
    reasons = finish_reasons(value, len(answers))
    answers = [replace(each, finish_reason=reason) for each, reason in zip(answers, reasons, strict=True)]
    return ParsedCompletions(task, answers, found)


def _null_field(value: Mapping[str, Any], nulls: list[str]) -> InputError | None:
    for name in nulls:
        if any(name in group for each in COMPLETION_FORMATS for group in each.needs) and any(
            each.has_fields({**value, **dict.fromkeys(nulls, "")}) for each in COMPLETION_FORMATS
        ):
            return InputError("is null", field=name)
    return None


def _unknown(value: Mapping[str, Any], reading: ReadContext) -> InputError:
    if not value:
        return InputError("the row has no fields")
    nearest = nearest_of(
        COMPLETION_FORMATS, value, lambda each: each is (OPENAI_BATCH if "custom_id" in value else OWN)
    )
    missing = nearest.missing(value)
    hints = []
    if TASK_FIELDS in missing and reading.known is not None:
        hints.append(f"the problems are named {reading.known.form}")
    hints.append("name the fields with `completion_fields`, for example task_id=meta.task,completion=reply")
    message = unknown_fields(value, nearest, "format of completions")
    place = missing[0][0] if missing else None
    return InputError(message, field=place, hint="; ".join(hints), fields=("completion_fields",))
