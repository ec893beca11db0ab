"""Output of batches of requests: `custom_id` names the problem, and the response has the messages.

A request that failed makes its completion unscorable, because the model gave no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.completion_formats.format import Answer, CompletionFormat, Reading, Task, named_task
from sandrl.problems.completion_formats.texts import content_of, is_conversation, texts_of

# How scripts number the requests for one problem.
_SAMPLE = re.compile(r"(.+?)[#:/|_ .-]+(?:sample|s|n|k|run|try)?[_-]?\d+", re.DOTALL | re.IGNORECASE)


def _answers(value: Mapping[str, Any], _: Reading) -> list[Answer]:
    response = value.get("response", value.get("result"))
    field = "response" if "response" in value else "result"
    if not isinstance(response, Mapping):
        if (error := value.get("error")) is not None:
            return [Answer(loss=_failure(error))]
        raise InputError("must be an object", field=field)
    status = response.get("status_code", 200)
    body = response.get("body", response)
    if status != 200 or not isinstance(body, Mapping) or (set(body) <= {"error", "type"} and "error" in body):
        error = body.get("error", body) if isinstance(body, Mapping) else body
        return [Answer(loss=_failure(error if status == 200 else {"status": status, "error": error}))]
    place = f"{field}.body" if "body" in response else field
    if isinstance(output := body.get("output"), list):
        # The Responses API: messages among reasoning and calls of tools.
        said = [(number, each) for number, each in enumerate(output) if is_conversation([each])]
        return [Answer("".join(content_of(each, f"{place}.output[{number}]") for number, each in said))]
    return [Answer(text) for text in texts_of(body, place)]


def _failure(error: object) -> str:
    text = error if isinstance(error, str) else json.dumps(error)
    return f"the request failed: {' '.join(text.split())}"[:1000]


def _task(value: Mapping[str, Any], reading: Reading) -> Task:
    found = named_task(value, reading)
    names = possible_names(found.name)
    known = names[0] if reading.known is None else next((each for each in names if each in reading.known), names[0])
    return Task(known, found.field)


def possible_names(name: str) -> list[str]:
    """The names of problems that a name may stand for: it may end with the number of a sample."""
    numbered = _SAMPLE.fullmatch(name)
    return [name] if numbered is None else [name, numbered[1]]


OPENAI_BATCH = CompletionFormat(
    "OpenAI's batch output", (("custom_id",), ("response", "result", "error")), _answers, _task
)
