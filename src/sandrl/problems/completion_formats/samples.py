"""Rows of scripts: one field with the text of the model, or with the texts of all samples of a problem.

Many names are in use. The first group names nothing else. The second group (`answer`, `text`) often holds something
else beside the model's text, so it is used only if the row has no field of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.completion_formats.format import TASK_FIELDS, Answer, CompletionFormat, Reading
from sandrl.problems.completion_formats.texts import code_answer, texts_of

LISTS = (
    "generations",
    "completions",
    "outputs",
    "responses",
    "samples",
    "predictions",
    "solutions",
    "candidates",
    "choices",
)
TEXTS = (
    *("response", "output", "generation", "prediction", "generated_text", "generated_code"),
    *("model_output", "raw_output", "raw_response", "full_response"),
)
DOUBTFUL = ("answer", "answers", "text", "texts", "content", "result", "results", "message")


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    found = [field for field in (*LISTS, *TEXTS) if field in value]
    if len(found) > 1:
        raise InputError(
            f"the row has {' and '.join(f'`{field}`' for field in found)}, and only one can be judged",
            field=found[1],
            hint=f"name one with `completion_fields`: completion={found[0]}",
            fields=("completion_fields",),
        )
    [field] = found
    texts = texts_of(value[field], field, is_list=field in LISTS)
    return [code_answer(text) if field in _CODE else Answer(text) for text in texts]


def _doubtful(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    field = next(each for each in DOUBTFUL if each in value)
    return [Answer(text) for text in texts_of(value[field], field)]


_CODE = ("generations", "solutions", "generated_code")

SAMPLES = CompletionFormat("a row of samples", (TASK_FIELDS, (*LISTS, *TEXTS)), _answers)
DOUBTFUL_SAMPLES = CompletionFormat("a row with an answer", (TASK_FIELDS, DOUBTFUL), _doubtful)
