"""sandrl's own format: `completion` (a model's text) or `code`, and its variants with several samples or messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.completion_formats.format import TASK_FIELDS, Answer, CompletionFormat, Reading
from sandrl.problems.completion_formats.texts import checked_text, texts_of


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    if "completion" in value and "code" in value:
        raise InputError(
            "the row has both `completion` and `code`, and only one can be judged",
            hint="keep `completion` to extract the code from the text, or `code` to use it unchanged",
        )
    if "code" not in value:
        return [Answer(text) for text in texts_of(value["completion"], "completion")]
    if value["code"] == []:
        raise InputError("is empty: it has no sample", field="code")
    codes = value["code"] if isinstance(value["code"], list) else [value["code"]]
    places = [f"code[{number}]" for number in range(len(codes))] if codes is value["code"] else ["code"]
    return [Answer(code=checked_text(code, place)) for code, place in zip(codes, places, strict=True)]


OWN = CompletionFormat("sandrl's own", (TASK_FIELDS, ("completion", "code")), _answers)
