"""bigcode-evaluation-harness: a JSON array with the programs for each problem, in the order of the problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.problems.completion_formats.format import Answer, CompletionFormat, Reading, Task
from sandrl.problems.completion_formats.texts import code_answer, texts_of

ENTRY = "the entry"
"""The field of a row that is made of an entry that is no object."""


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    return [code_answer(text) for text in texts_of(value[ENTRY], ENTRY)]


def _task(_: Mapping[str, Any], reading: Reading) -> Task:
    reading.positions += 1
    return reading.at(reading.line - 1, ENTRY)


BIGCODE = CompletionFormat("bigcode-evaluation-harness", ((ENTRY,),), _answers, _task)
