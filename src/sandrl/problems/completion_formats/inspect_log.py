"""Samples of an inspect log, of a `.eval` or a JSON file: epochs are the samples of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandrl.problems.completion_formats.format import Answer, CompletionFormat, Reading
from sandrl.problems.completion_formats.texts import checked_text, texts_of

_ATTACHMENT = "attachment://"


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    output = value.get("output")
    choices = output.get("choices") if isinstance(output, Mapping) else None
    if isinstance(output, Mapping) and not choices and "completion" in output and "error" not in value:
        return [Answer(_whole(checked_text(output["completion"], "output.completion"), value))]
    if not choices and (reason := _error(value.get("error")) or (isinstance(output, Mapping) and output.get("error"))):
        return [Answer(loss=f"the sample failed: {reason}"[:1000])]
    return [
        Answer(_whole(text, value)) for text in texts_of(choices or output, "output.choices" if choices else "output")
    ]


def _error(value: object) -> str:
    text = value.get("message") if isinstance(value, Mapping) else value
    return " ".join(str(text).split()) if text else ""


# A text, which a log may keep apart from its message.
def _whole(text: str, value: Mapping[str, Any]) -> str:
    attachments = value.get("attachments")
    if text.startswith(_ATTACHMENT) and isinstance(attachments, Mapping):
        return str(attachments.get(text.removeprefix(_ATTACHMENT), text))
    return text


INSPECT = CompletionFormat("inspect", (("id",), ("epoch",), ("output", "error")), _answers)
