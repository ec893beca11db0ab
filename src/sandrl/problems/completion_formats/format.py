"""A format of completions: how its rows are recognised, the answers that a row has, and the texts in a field.

A row is an answer to one problem, or several: the samples of this problem. A format takes the answers from the row; how
a problem is named is the same in all of them, unless a format says otherwise.

A field has one text, a list of samples, a conversation, or the objects in which services return texts. Of a
conversation the last message of the assistant is the answer. Of a message only the content counts: reasoning, which
services return beside it, is not a part of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import type_name
from sandrl.problems.completion import Completion
from sandrl.problems.formats.texts import json_value
from sandrl.problems.recognition import KnownNames, Recognition
from sandrl.syntax import parse

TASK_FIELDS = (
    "task_id", "question_id", "problem_id", "instance_id", "custom_id", "example_id", "id", "name", "task",
)  # fmt: skip
"""Fields that name the problem of a row."""


def answer(
    text: str | None = None, code: str | None = None, loss: str = "", *, reasoning: str = "", tokens: int | None = None
) -> Completion:
    """A completion of a row, before it has a name and a problem."""
    return Completion("", "", text, code, loss, tokens=tokens, reasoning=reasoning)


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    field: str


@dataclass
class ReadContext:
    """What is known while the rows of a source are read.

    Attributes:
        names: The names of all problems; None accepts every name.
        positions: How many rows named their problems by their position alone.
        kept: What a format remembers from one row to the next, by a name of its own.
    """

    names: Collection[str] | None
    line: int = 0
    positions: int = 0
    kept: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def known(self) -> KnownNames | None:
        return None if self.names is None else KnownNames(self.names)

    @cached_property
    def by_position(self) -> tuple[str, ...]:
        return () if self.names is None else tuple(self.names)

    def at(self, position: int, place: str) -> Task:
        """The problem at a position, from 0."""
        if not 0 <= position < len(self.by_position):
            count = f"there are {len(self.by_position)}" if self.names is not None else "they are not known"
            raise InputError(f"is the answer to problem {position + 1} by its position, and {count}", field=place)
        return Task(self.by_position[position], place)


def named_task(value: Mapping[str, Any], reading: ReadContext) -> Task:
    """The problem that a row names: by the first field whose value is the name of a problem, or else the first."""
    found = [Task(str(name), each) for each in TASK_FIELDS if _is_name(name := value.get(each))]
    if not found:
        place = next((each for each in TASK_FIELDS if each in value), TASK_FIELDS[0])
        raise InputError("must be a string that is not empty, or an integer", field=place)
    if reading.known is None or "task_id" in value:
        return found[0]
    return next((each for each in found if each.name in reading.known), found[0])


def _is_name(value: object) -> bool:
    return (isinstance(value, str) and 0 < len(value) <= 1000) or (
        isinstance(value, int) and value is not True and value is not False
    )


@dataclass(frozen=True, slots=True)
class CompletionFormat(Recognition):
    """A format: the answers of a row, and the problem that it names."""

    answers: Callable[[Mapping[str, Any], ReadContext], list[Completion]]
    task: Callable[[Mapping[str, Any], ReadContext], Task] = named_task


_REASONS = ("finish_reason", "finish_reasons", "stop_reason", "stop_reasons")
# Where services and tools put the choices of an answer, from the outside in.
_AROUND_CHOICES = ("response", "result", "output", "body")


def finish_reasons(value: Mapping[str, Any], count: int) -> list[str | None]:
    """Why the answers of a row ended, as far as it says so."""
    at: object = value
    while isinstance(at, Mapping):
        choices = at.get("choices")
        told = choices if isinstance(choices, list) else [at]
        reasons = [_reason(each) for each in told]
        if len(reasons) == 1 and isinstance(reasons[0], list):
            reasons = reasons[0]
        if len(reasons) == count and any(reasons):
            return [each if isinstance(each, str) else None for each in reasons]
        at = next((at[name] for name in _AROUND_CHOICES if isinstance(at.get(name), Mapping)), None)
    return [None] * count


def _reason(value: object) -> Any:
    return next((found for name in _REASONS if isinstance(value, Mapping) and (found := value.get(name))), None)


_ASSISTANTS = frozenset({"assistant", "model", "gpt", "chatgpt", "bot", "chatbot", "ai"})
_ROLES = ("role", "from")
_CONTENTS = ("content", "value", "text")
# Parts of a message that are no text of the answer.
_OTHER_PARTS = frozenset({"reasoning", "thinking", "redacted_thinking", "tool_use", "tool_call", "image", "image_url"})
# Where objects of services have a text, or what has one.
_HOLDERS = ("message", "text", "generated_text", "content", "output_text", "choices", "outputs", "output", "body")
_MESSAGES_TEXT = re.compile(r"\s*\[\s*\{\s*[\"'](?:role|content|from)[\"']")
_MARKUP = re.compile(r"```|~~~|</?\w")
_DEEPEST = 8


def texts_of(value: Any, field: str, *, is_list: bool = False, depth: int = 0) -> list[str]:
    """The texts of a field, one for each sample; `is_list`: by its name a list, which a cell of a table has as JSON."""
    if isinstance(value, str):
        if (is_list and value.lstrip()[:1] == "[") or _MESSAGES_TEXT.match(value):
            try:
                return texts_of(json_value(value, field), field, is_list=is_list)
            except InputError:
                if is_list:
                    raise
        return [checked_text(value, field)]
    if depth > _DEEPEST:
        raise InputError("is nested too deeply", field=field)
    if value == []:
        raise InputError("is empty: it has no sample", field=field)
    if isinstance(value, list):
        # Several messages of the assistant alone are samples, where the field is a list of these.
        is_samples = is_list and len(value) > 1 and all(_role(each) in _ASSISTANTS for each in value)
        if is_conversation(value) and not is_samples:
            return [answer_of(value, field)]
        return [
            text for number, each in enumerate(value) for text in texts_of(each, f"{field}[{number}]", depth=depth + 1)
        ]
    if isinstance(value, Mapping):
        if any(role in value for role in _ROLES):
            return [content_of(value, field)]
        for name in _HOLDERS:
            if value.get(name) is not None:
                return texts_of(value[name], f"{field}.{name}", depth=depth + 1)
        raise InputError(f"is an object without a text: it has none of {', '.join(_HOLDERS)}", field=field)
    raise InputError(f"must be a string, or a list of strings or messages, not {type_name(value)}", field=field)


def checked_text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"must be a string, not {type_name(value)}", field=field)
    return value


def is_conversation(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(_role(each) is not None for each in value)


def answers_last(value: object) -> bool:
    """Whether a value is a list of messages, or JSON text of one, with one of the assistant."""
    if isinstance(value, str) and _MESSAGES_TEXT.match(value):
        try:
            value = json_value(value, "")
        except InputError:
            return True  # whoever reads it says what is wrong
    return isinstance(value, list) and is_conversation(value) and any(_role(each) in _ASSISTANTS for each in value)


def answer_of(messages: list[Any], field: str) -> str:
    for number in range(len(messages) - 1, -1, -1):
        if _role(messages[number]) in _ASSISTANTS:
            return content_of(messages[number], f"{field}[{number}]")
    raise InputError("has no message of the role `assistant`", field=field)


def content_of(message: Mapping[str, Any], field: str) -> str:
    """The text of a message; empty if it has only reasoning or calls of tools."""
    name = next((each for each in _CONTENTS if each in message), None)
    if name is None:
        if any(each in message for each in ("tool_calls", "reasoning_content", "reasoning", "refusal")):
            return ""
        raise InputError("is missing", field=f"{field}.{_CONTENTS[0]}")
    content, place = message[name], f"{field}.{name}"
    if content is None:
        return ""
    if not isinstance(content, list):
        return checked_text(content, place)
    texts = []
    for number, part in enumerate(content):
        if isinstance(part, str):
            texts.append(checked_text(part, f"{place}[{number}]"))
        elif not isinstance(part, Mapping):
            raise InputError(f"must be a part of a message, not {type_name(part)}", field=f"{place}[{number}]")
        elif part.get("type") not in _OTHER_PARTS and (text := part.get("text")) is not None:
            texts.append(checked_text(text, f"{place}[{number}].text"))
    return "".join(texts)


def code_answer(text: str) -> Completion:
    """The answer of a field that holds code, where a text with code in it may stand as well.

    Code with a fence or a tag in a string of it would be taken for a text, so what is Python as a whole is code.
    """
    if _MARKUP.search(text):
        try:
            parse(text)
        except SyntaxError:
            return answer(text)
        return answer(code=text)
    return answer(text)


def _role(message: object) -> str | None:
    if not isinstance(message, Mapping):
        return None
    role = next((message[each] for each in _ROLES if each in message), None)
    return role.lower() if isinstance(role, str) else None
