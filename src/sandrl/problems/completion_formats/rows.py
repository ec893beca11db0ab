"""The formats of completions of sandrl, of services and of scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from sandrl.errors import InputError
from sandrl.problems.completion import Completion
from sandrl.problems.completion_formats.format import (
    TASK_FIELDS,
    CompletionFormat,
    ReadContext,
    Task,
    answer,
    answers_last,
    checked_text,
    code_answer,
    content_of,
    is_conversation,
    named_task,
    texts_of,
)


# sandrl's own format: `completion` (a model's text) or `code`, and its variants with several samples or messages.
def _own_answers(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    if "completion" in value and "code" in value:
        raise InputError(
            "the row has both `completion` and `code`, and only one can be judged",
            hint="keep `completion` to extract the code from the text, or `code` to use it unchanged",
        )
    if "code" not in value:
        return [answer(text) for text in texts_of(value["completion"], "completion")]
    if value["code"] == []:
        raise InputError("is empty: it has no sample", field="code")
    codes = value["code"] if isinstance(value["code"], list) else [value["code"]]
    places = [f"code[{number}]" for number in range(len(codes))] if codes is value["code"] else ["code"]
    return [answer(code=checked_text(code, place)) for code, place in zip(codes, places, strict=True)]


OWN = CompletionFormat("sandrl's own", (TASK_FIELDS, ("completion", "code")), _own_answers)


# Final states of the machines of tasks, which a run keeps as `states/*`: one for each step.
def _states(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    given = value["states"] if isinstance(value["states"], list) else [value["states"]]
    if not given:
        raise InputError("is empty: it has no state", field="states")
    return [Completion("", "", states=tuple(checked_text(each, "states") for each in given))]


STATES = CompletionFormat("final states of tasks", (TASK_FIELDS, ("states",)), _states)


# Rows of sandrl's runs: `trajectories.jsonl`, and the `answers.jsonl` of an evaluation.
def _run_trajectory(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    # What was extracted from the text is beside it.
    if "completion" in value:
        return [_run_text(checked_text(value["completion"], "completion"), value)]
    return [answer(code=checked_text(value["code"], "code"))]


def _run_text(text: str, value: Mapping[str, Any]) -> Completion:
    reasoning, tokens = value.get("reasoning"), value.get("tokens")
    count = tokens.get("completion") if isinstance(tokens, Mapping) else None
    return answer(
        text,
        reasoning=reasoning if isinstance(reasoning, str) else "",
        tokens=count if isinstance(count, int) and count else None,
    )


def _run_answer(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    if "text" in value:
        return [_run_text(checked_text(value["text"], "text"), value)]
    return [answer(loss=checked_text(value["failure"], "failure") or "the model gave no answer")]


TRAJECTORIES = CompletionFormat(
    "a run's trajectories", (("task_id",), ("status",), ("duration_seconds",), ("completion", "code")), _run_trajectory
)
ANSWERS = CompletionFormat(
    "an evaluation's answers", (("task_id",), ("job_id",), ("index",), ("text", "failure")), _run_answer
)


# Output of batches of requests: `custom_id` names the problem, and the response has the messages. A request that failed
# makes its completion unscorable, because the model gave no answer.

# How scripts number the requests for one problem.
_SAMPLE = re.compile(r"(.+?)[#:/|_ .-]+(?:sample|s|n|k|run|try)?[_-]?\d+", re.DOTALL | re.IGNORECASE)


def _batch_answers(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    response = value.get("response", value.get("result"))
    field = "response" if "response" in value else "result"
    if not isinstance(response, Mapping):
        if (error := value.get("error")) is not None:
            return [answer(loss=_batch_failure(error))]
        raise InputError("must be an object", field=field)
    status = response.get("status_code", 200)
    body = response.get("body", response)
    if status != 200 or not isinstance(body, Mapping) or (set(body) <= {"error", "type"} and "error" in body):
        error = body.get("error", body) if isinstance(body, Mapping) else body
        return [answer(loss=_batch_failure(error if status == 200 else {"status": status, "error": error}))]
    place = f"{field}.body" if "body" in response else field
    if isinstance(output := body.get("output"), list):
        # The Responses API: messages among reasoning and calls of tools.
        said = [(number, each) for number, each in enumerate(output) if is_conversation([each])]
        return [answer("".join(content_of(each, f"{place}.output[{number}]") for number, each in said))]
    return [answer(text) for text in texts_of(body, place)]


def _batch_failure(error: object) -> str:
    text = error if isinstance(error, str) else json.dumps(error)
    return f"the request failed: {' '.join(text.split())}"[:1000]


def _batch_task(value: Mapping[str, Any], reading: ReadContext) -> Task:
    found = named_task(value, reading)
    names = possible_names(found.name)
    known = names[0] if reading.known is None else next((each for each in names if each in reading.known), names[0])
    return Task(known, found.field)


def possible_names(name: str) -> list[str]:
    """The names of problems that a name may stand for: it may end with the number of a sample."""
    numbered = _SAMPLE.fullmatch(name)
    return [name] if numbered is None else [name, numbered[1]]


OPENAI_BATCH = CompletionFormat(
    "OpenAI's batch output", (("custom_id",), ("response", "result", "error")), _batch_answers, _batch_task
)


# Rows of scripts: one field with the text of the model, or with the texts of all samples of a problem. The first two
# groups of names name nothing else. The third often holds something else beside the model's text, so it is used only if
# the row has no field of the first two.
LISTS = (
    *("generations", "completions", "outputs", "responses", "samples", "predictions", "solutions", "candidates"),
    "choices",
)
TEXTS = (
    *("response", "output", "generation", "prediction", "generated_text", "generated_code"),
    *("model_output", "raw_output", "raw_response", "full_response"),
)
DOUBTFUL = ("answer", "answers", "text", "texts", "content", "result", "results", "message")


def _sample_answers(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
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
    return [code_answer(text) if field in _CODE else answer(text) for text in texts]


def _sample_doubtful(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    field = next(each for each in DOUBTFUL if each in value)
    return [answer(text) for text in texts_of(value[field], field)]


_CODE = ("generations", "solutions", "generated_code")

SAMPLES = CompletionFormat("a row of samples", (TASK_FIELDS, (*LISTS, *TEXTS)), _sample_answers)
DOUBTFUL_SAMPLES = CompletionFormat("a row with an answer", (TASK_FIELDS, DOUBTFUL), _sample_doubtful)


# Conversations, as chat logs, TRL and verifiers write them: the last message of the assistant is the answer.
_CONVERSATIONS = ("messages", "conversations", "conversation", "trajectory", "chat", "dialogue")


def _message_answers(value: Mapping[str, Any], _: ReadContext) -> list[Completion]:
    found = [each for each in _CONVERSATIONS if each in value]
    field = next((each for each in found if answers_last(value[each])), found[0])
    return [answer(text) for text in texts_of(value[field], field)]


MESSAGES = CompletionFormat("messages", (TASK_FIELDS, _CONVERSATIONS), _message_answers)
