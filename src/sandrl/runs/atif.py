"""Trajectories in the Agent Trajectory Interchange Format, ATIF (`harbor/rfcs/0001-trajectory-format.md`), and back.

A step of an agent has the results of its tool calls, which are messages of their own in a run. `extra` has what ATIF
has no field for: the reward and the verdict of a completion (`extra.sandrl` of the document), why an answer ended, and
tokens that are not numbers. So what was exported is imported as it was.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sandrl import __version__
from sandrl.errors import InputError
from sandrl.files import new_directory, write_whole
from sandrl.runs.config import TOOL_SCHEMAS, RunConfig
from sandrl.runs.reader import Damage, RunReader
from sandrl.runs.rows import BranchRow, MessageRow, ProblemRow, ToolCallRow, TrajectoryRow

VERSION = "ATIF-v1.8"
OWN = "sandrl"
"""The key of `extra` that has what only runs of sandrl know."""

HAS_DIALOGUE = "has_dialogue"
"""Says there whether the steps are an episode's, and not one answer to a prompt."""

_TOKEN_ID = "token_id:"
_NOT_KEPT = {
    "messages",
    "branches",
    "job_id",
    "rank",
    "time",
    "schema_version",
    "sandbox_id",
    "states",
    "second_opinion",
    "problem",
}
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Exported:
    """The documents that were written, and what of the run could not be read."""

    documents: int
    damage: Damage


def export_run(reader: RunReader, directory: Path) -> Exported:
    """Writes a document for each completion of a run, those without a dialogue included.

    Args:
        directory: Must not exist, or be empty.

    Raises:
        InputError: If it cannot be written, or the run has no completions.
    """
    problems, config = reader.problems(), reader.config
    damage, count = Damage(), 0
    with new_directory(directory) as made:
        for row in reader.each_trajectory(damage):
            document = document_of(row, config, problems.get(row.problem or ""))
            content = json.dumps(document, ensure_ascii=False, allow_nan=False).encode() + b"\n"
            write_whole(made / f"{count:06d}-{_file_name(row.id)}.json", content)
            count += 1
        if not count:
            raise InputError("has no completions", path=reader.path)
    return Exported(count, damage)


def document_of(row: TrajectoryRow, run: RunConfig, problem: ProblemRow | None = None) -> dict[str, Any]:
    """A completion as an ATIF document; `problem` has the prompt of one without a dialogue.

    Raises:
        InputError: If the run has a value that no document can have.
    """
    from atif import Trajectory

    messages = row.messages or _one_turn(row, "" if problem is None else problem.prompt)
    tools = run.options.get(TOOL_SCHEMAS)
    tokens = row.tokens
    own = json.loads(row.model_dump_json(exclude=_NOT_KEPT, exclude_defaults=True))
    agent = {
        "name": str(run.options.get("agent") or OWN),
        "version": next((job.versions.get(OWN, "") for job in reversed(run.jobs)), "") or __version__,
        "model_name": run.subject,
    }

    def part(name: str, messages: Sequence[MessageRow], tools: Sequence[Any]) -> dict[str, Any]:
        offered = [{"type": "function", "function": each} for each in tools]
        return {
            "schema_version": VERSION,
            "session_id": run.run_id,
            "trajectory_id": name,
            "agent": {**agent, "tool_definitions": offered or None},
            "steps": list(_steps(messages)),
        }

    branches = [
        part(f"{row.id}/branch-{number}", each.messages, each.tools) for number, each in enumerate(row.branches, 1)
    ]
    document = {
        **part(row.id, messages, row.tools or (tools if isinstance(tools, list) else ())),
        "subagent_trajectories": branches or None,
        "final_metrics": {
            "total_prompt_tokens": tokens.get("prompt"),
            "total_completion_tokens": tokens.get("completion"),
        },
        "extra": {OWN: {**own, HAS_DIALOGUE: bool(row.messages)}},
    }
    try:
        return Trajectory.model_validate(document).to_json_dict()
    except ValidationError as error:
        raise InputError(f"the completion {row.id!r} cannot be a document of ATIF: {first_error(error)}") from error


def messages_of(steps: Sequence[Any], *, keeps_tokens: bool = True) -> Iterator[MessageRow]:
    """The messages of steps, which are those of `atif.Trajectory`.

    Args:
        keeps_tokens: Whether turns keep the tokens that were sampled. A turn that is copied from elsewhere, or that no
            model has made, keeps none, so nothing trains on it.
    """
    for step in steps:
        extra = step.extra or {}
        if step.source != "agent":
            yield MessageRow(role="system" if step.source == "system" else "user", content=_text(step.message))
            yield from _results(step, {})
            continue
        was_sampled = keeps_tokens and not step.is_copied_context and step.llm_call_count in (None, 1)
        calls = [
            ToolCallRow(id=call.tool_call_id, name=call.function_name, arguments=_arguments(call))
            for call in step.tool_calls or ()
        ]
        tokens, logprobs = _sampled(step.metrics) if was_sampled and step.metrics is not None else ((), ())
        reason = extra.get("finish_reason")
        yield MessageRow(
            role="assistant",
            content=_text(step.message),
            tool_calls=tuple(calls),
            tokens=tokens,
            logprobs=logprobs,
            finish_reason=reason if isinstance(reason, str) else None,
            seconds=_seconds(extra),
            reasoning=step.reasoning_content or "",
            is_given=bool(step.is_copied_context),
        )
        yield from _results(step, {call.id: call.name for call in calls})


def branches_of(document: Any, *, keeps_tokens: bool = True) -> Iterator[BranchRow]:
    """The sub-agents of a document and theirs, as the branches of an episode."""
    for each in document.subagent_trajectories or ():
        messages = tuple(messages_of(each.steps, keeps_tokens=keeps_tokens))
        yield BranchRow(messages=messages, tools=tuple(tools_of(each)))
        yield from branches_of(each, keeps_tokens=keeps_tokens)


def own_facts(document: Any) -> Mapping[str, Any]:
    """What a run of sandrl has said of an exported completion; empty for a document of another program."""
    found = (document.extra or {}).get(OWN)
    return found if isinstance(found, dict) else {}


def tools_of(document: Any) -> list[dict[str, Any]]:
    """The tools that the model of a document was offered, as runs keep them."""
    found = (each.get("function", each) for each in document.agent.tool_definitions or ())
    return [each for each in found if isinstance(each, dict) and isinstance(each.get("name"), str)]


def first_error(error: ValidationError) -> str:
    """The first thing that is wrong, in one line, with its place."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, found["loc"]))
    message = " ".join(found["msg"].removeprefix("Value error, ").split())[:300]
    return f"{place}: {message}" if place else message


def _one_turn(row: TrajectoryRow, prompt: str) -> tuple[MessageRow, ...]:
    text = row.completion if row.completion is not None else row.code or ""
    answer = MessageRow(role="assistant", content=text, finish_reason=row.finish_reason, reasoning=row.reasoning)
    return (MessageRow(role="user", content=prompt), answer)


def _steps(messages: Sequence[MessageRow]) -> Iterator[dict[str, Any]]:
    number, place = 0, 0
    while place < len(messages):
        message = messages[place]
        results = []
        place += 1
        if message.role in ("assistant", "tool"):
            # A result without its call cannot be, but is not lost either.
            start = place if message.role == "assistant" else place - 1
            while place < len(messages) and messages[place].role == "tool":
                place += 1
            results = list(messages[start:place])
        number += 1
        yield {"step_id": number, **_step(message, results)}


def _step(message: MessageRow, results: Sequence[MessageRow]) -> dict[str, Any]:
    if message.role != "assistant":
        source = "user" if message.role == "user" else "system"
        content = "" if message.role == "tool" else message.content
        return {"source": source, "message": content, "observation": _observation(results, ())}
    calls = [
        _call(
            call, call.id if call.id and sum(call.id == each.id for each in message.tool_calls) == 1 else f"#{number}"
        )
        for number, call in enumerate(message.tool_calls)
    ]
    extra = {"finish_reason": message.finish_reason, "seconds": message.seconds}
    return {
        "source": "agent",
        "message": message.content,
        "reasoning_content": message.reasoning or None,
        "tool_calls": calls or None,
        "observation": _observation(results, tuple(call["tool_call_id"] for call in calls)),
        "metrics": _metrics(message),
        "extra": {name: value for name, value in extra.items() if value is not None} or None,
        "llm_call_count": 1,
        "is_copied_context": message.is_given or None,
    }


def _call(call: ToolCallRow, identifier: str) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    is_same = isinstance(arguments, dict) and json.dumps(arguments, ensure_ascii=False) == call.arguments
    return {
        "tool_call_id": identifier,
        "function_name": call.name,
        "arguments": arguments if isinstance(arguments, dict) else {},
        # As the model wrote them, where that cannot be told from the object.
        "extra": None if is_same else {"arguments": call.arguments},
    }


def _arguments(call: Any) -> str:
    written = (call.extra or {}).get("arguments")
    return written if isinstance(written, str) else json.dumps(call.arguments, ensure_ascii=False)


def _observation(results: Sequence[MessageRow], calls: Sequence[str]) -> dict[str, Any] | None:
    if not results:
        return None
    return {
        "results": [
            {
                "source_call_id": each.tool_call_id
                if each.tool_call_id in calls
                else calls[number]
                if len(calls) == len(results)
                else None,
                "content": each.content,
                "extra": None if each.seconds is None else {"seconds": each.seconds},
            }
            for number, each in enumerate(results)
        ]
    }


def _results(step: Any, names: Mapping[str, str]) -> Iterator[MessageRow]:
    for result in () if step.observation is None else step.observation.results:
        named = result.source_call_id
        # What no call has asked for, an agent has told its model as a user does.
        yield MessageRow(
            role="tool" if named else "user",
            content=_text(result.content),
            tool_call_id=named,
            name=names.get(named or ""),
            seconds=_seconds(result.extra or {}),
        )


def _metrics(message: MessageRow) -> dict[str, Any] | None:
    if not message.tokens:
        return None
    ids = [token.removeprefix(_TOKEN_ID) for token in message.tokens if token.startswith(_TOKEN_ID)]
    has_ids = len(ids) == len(message.tokens) and all(each.isascii() and each.isdigit() for each in ids)
    has_logprobs = len(message.logprobs) == len(message.tokens) and all(map(math.isfinite, message.logprobs))
    return {
        "completion_tokens": len(message.tokens),
        "completion_token_ids": [int(each) for each in ids] if has_ids else None,
        "logprobs": list(message.logprobs) if has_logprobs else None,
        "extra": None if has_ids else {"tokens": list(message.tokens)},
    }


def _sampled(metrics: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    written = (metrics.extra or {}).get("tokens")
    if metrics.completion_token_ids is not None:
        tokens = tuple(f"{_TOKEN_ID}{each}" for each in metrics.completion_token_ids)
    else:
        tokens = tuple(written) if isinstance(written, list) and all(isinstance(each, str) for each in written) else ()
    logprobs = tuple(metrics.logprobs or ())
    return tokens, logprobs if len(logprobs) == len(tokens) else ()


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text if part.type == "text" else f"[{part.type}: {part.source.path}]" for part in content)


def _seconds(extra: Mapping[str, Any]) -> float | None:
    found = extra.get("seconds")
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:_LONGEST_NAME].strip(".-") or "completion"
