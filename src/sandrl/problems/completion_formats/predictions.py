"""Predictions of SWE-bench and of Multi-SWE-bench: rows with a diff that solves an issue.

An answer without a diff, or with null, is that of a model that changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.problems.completion import Completion
from sandrl.problems.completion_formats.format import (
    TASK_FIELDS,
    CompletionFormat,
    ReadContext,
    Task,
    answer,
    checked_text,
)
from sandrl.problems.formats.repositories import multi_swe_names


def _diff(field: str, value: Mapping[str, Any]) -> list[Completion]:
    return [answer(code=checked_text(value.get(field, ""), field))]


def _multi_swe_task(value: Mapping[str, Any], reading: ReadContext) -> Task:
    names = multi_swe_names(value["org"], value["repo"], value["number"])
    known = reading.known
    return Task(next((name for name in names if known is not None and name in known), names[0]), "number")


# A row of problems has `patch`, and neither of these.
SWE_BENCH = CompletionFormat(
    "SWE-bench's predictions",
    (TASK_FIELDS, ("model_patch", "model_name_or_path")),
    lambda value, _: _diff("model_patch", value),
)
MULTI_SWE = CompletionFormat(
    "Multi-SWE-bench's predictions",
    (("org",), ("repo",), ("number",), ("fix_patch",)),
    lambda value, _: _diff("fix_patch", value),
    _multi_swe_task,
)
