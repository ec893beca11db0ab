"""LiveCodeBench's results: `code_list` has the code of each sample, `output_list` the text it was taken from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import type_name
from sandrl.problems.completion_formats.format import TASK_FIELDS, Answer, CompletionFormat, Reading
from sandrl.problems.completion_formats.texts import checked_text, texts_of
from sandrl.problems.formats.texts import json_value


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    if "code_list" not in value:
        return [Answer(text) for text in texts_of(value["output_list"], "output_list", is_list=True)]
    codes = json_value(value["code_list"], "code_list")
    if not isinstance(codes, list):
        raise InputError(f"must be an array, not {type_name(codes)}", field="code_list")
    if not codes:
        raise InputError("is empty: it has no sample", field="code_list")
    return [Answer(code=checked_text(code, f"code_list[{number}]")) for number, code in enumerate(codes)]


LIVE_CODE_BENCH = CompletionFormat("LiveCodeBench", (TASK_FIELDS, ("code_list", "output_list")), _answers)
