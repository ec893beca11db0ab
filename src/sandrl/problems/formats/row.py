"""A format: how its rows are recognised, what all formats share, and how a row becomes a problem.

The fields of a row alone decide its format. A format lists the fields that it needs, so that an unknown row can be
compared with each format, and the fields that look like tests but are not tests in this format.

A row is judged in the language that it names, and refused if that is impossible: because the language is not in the
table, or because the checks are Python code. Sets name the natural language of their text in the same fields, so the
name of a natural language is ignored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems.fields import Identifier, InputRow, Prelude, parse_row
from sandrl.problems.formats.texts import json_value
from sandrl.problems.languages import PYTHON, find_language, language_named
from sandrl.problems.preludes import STANDARD
from sandrl.problems.problem import Problem
from sandrl.problems.recognition import Recognition


class FormatRow(InputRow):
    """A row of a format. A field that every format has: `prelude`."""

    prelude: Prelude = ""

    @abstractmethod
    def to_problem(self, name: str) -> Problem:
        """Returns the problem of the row; an `InputError` names a field as the format names it."""


@dataclass(frozen=True, slots=True)
class Format(Recognition):
    """A format.

    Attributes:
        ignored: Fields that look like tests and are none: they do not make a row unusable.
        accepts: Whether a row that has the fields has the right kind of values in them.
        is_python: Whether its rows are judged as Python where they name no other language; rows of other formats are
            in the language that the format says, or are refused.
        language_path: The field within a field that names the language, where the format has such a one.
        has_solutions_by_language: Whether its rows have solutions in several languages, of which `language` chooses.
        named: The name of a row that has none in a field of its own; empty if it has none at all.
    """

    row: type[FormatRow]
    ignored: frozenset[str] = frozenset()
    accepts: Callable[[Mapping[str, Any]], bool] = lambda _: True
    is_python: bool = True
    language_path: tuple[str, str] | None = None
    has_solutions_by_language: bool = False
    named: Callable[[Mapping[str, Any]], str] | None = None

    def recognises(self, value: Mapping[str, Any]) -> bool:
        """Whether a row is of this format."""
        return self.has_fields(value) and self.accepts(value)

    def inner_language(self, value: Mapping[str, Any]) -> tuple[str, str] | None:
        """The language that a row names within a field, and where; None where it names none there."""
        if not self.is_python:
            if "language" not in value:
                return None
            return language_named(str(value.get("language"))).name, "language"
        if self.language_path is None:
            return None
        outer, inner = self.language_path
        found = json_value(value.get(outer), outer)
        place = f"{outer}.{inner}"
        language = named_language(found.get(inner), place) if isinstance(found, Mapping) else None
        return None if language is None else (language, place)


ID_FIELDS = ("task_id", "instance_id", "id", "question_id", "problem_id", "name")
"""Fields that name a row; the first there is does."""


class _NamedRow(InputRow):
    task_id: Identifier | None = None
    instance_id: Identifier | None = None
    id: Identifier | None = None
    question_id: Identifier | None = None
    problem_id: Identifier | None = None
    name: Identifier | None = None


def id_field(value: Mapping[str, Any]) -> str:
    """The field that names a row; the first of all where it has none."""
    return next((field for field in ID_FIELDS if value.get(field) is not None), ID_FIELDS[0])


def identifier_of(row: Row, field: str, path: str | Path) -> str:
    """The name in one of the `ID_FIELDS` of a row."""
    named = parse_row(_NamedRow, Row(row.line, {field: row.value[field]}), path)
    return str(getattr(named, field))


def row_name(row: Row, set_name: str) -> str:
    """The name of a row: its own, or its number in a set; without a set it must have its own."""
    field = id_field(row.value)
    if row.value.get(field) is not None:
        return identifier_of(row, field, "")
    if not set_name:
        raise InputError("is missing", field=field)
    return f"{set_name}/{row.line}"


# Prompts that are conversations: the messages of the user are the task. System messages are left out: they say how to
# answer, and every command here says that itself. A conversation with answers in it asks something else than a problem
# does, and is refused.


# What is neither text nor messages stays for the type to refuse.
def _text_of(value: object) -> object:
    if not isinstance(value, list):
        return value
    texts = [_user_text(message) for message in value]
    said = [text for text in texts if text]
    if not said:
        raise ValueError("has no message of a user")
    return "\n\n".join(said)


def _user_text(message: Any) -> str:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ValueError('must be a string, or messages {"role", "content"}')
    match message["role"]:
        case "system" | "developer":
            return ""
        case "user":
            return _content(message.get("content"))
        case role:
            raise ValueError(f"has a message of the role {role!r:.40}: a prompt may have system and user messages only")


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("has a message whose content is not text")
    return "\n".join(map(str, texts))


Prompt = Annotated[str, BeforeValidator(_text_of)]
"""A string, or messages."""


FIELDS = ("language", "programming_language", "execution_language", "lang")
"""Fields that name the language of the code."""

# fmt: off
_NATURAL = frozenset({
    "en", "zh", "cn", "ru", "ja", "jp", "ko", "fr", "de", "es", "pt", "it", "pl", "uk", "tr", "ar", "hi", "vi", "id",
    "nl", "dutch", "fa", "english", "chinese", "russian", "japanese", "korean", "french", "german", "spanish",
    "portuguese", "italian", "polish", "ukrainian", "turkish", "arabic", "hindi", "vietnamese", "indonesian", "persian",
})
# fmt: on


def named_language(value: object, field: str) -> str | None:
    """The name in the table of the language that a field names; None where it names no programming language."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InputError("must be the name of a language", field=field)
    found = find_language(value)
    if found is None and value.strip().casefold().replace("_", "-").partition("-")[0] in _NATURAL:
        return None
    return language_named(value, field).name if found is None else found.name


def first_language(value: Mapping[str, object]) -> tuple[str, str] | None:
    """The language that a row names and the field that names it; None where no field names one."""
    named = [(language, field) for field in FIELDS if (language := named_language(value.get(field), field)) is not None]
    if len({language for language, _ in named}) > 1:
        (first, at), (other, field) = named[0], next(each for each in named if each[0] != named[0][0])
        raise InputError(f"is {other}, and `{at}` is {first}", field=field)
    return named[0] if named else None


def in_language(problem: Problem, language: str | None, field: str) -> Problem:
    """A problem whose programs are in the language that its row names; None where it names none."""
    if language in (None, problem.language):
        return problem
    if problem.kind not in ("cases", "exit_status"):
        raise InputError(f"is {language}, but the checks of this row can be judged in Python only", field=field)
    if problem.prelude not in ("", STANDARD):
        raise InputError(f"is Python code, but the problem is in {language}", field="prelude")
    return replace(problem, language=language or PYTHON, prelude="")


def in_asked_language(
    problem: Problem, language: str, named: tuple[str, str] | None, *, keeps_reference: bool
) -> Problem:
    """A problem whose programs are in the language that the user asks for.

    Other code of its row is left out: it is in the language that the row was written for, unless the reference is in
    the language that is asked for. `named` is the language that the row names, and where.
    """
    if named is not None and named[0] != language:
        raise InputError(f"is {named[0]}, and `language` is {language}", field=named[1], fields=("language",))
    if language == problem.language:
        return problem
    if problem.kind not in ("cases", "exit_status"):
        raise InputError(
            f"its checks ({problem.kind}) are Python code, and `language` is {language}",
            hint="only `cases` may be in any language; `sandrl problems convert` writes a set without the other rows"
            " (`skip_bad_rows`)",
            fields=("language", "skip_bad_rows"),
        )
    reference = problem.reference if keeps_reference else None
    changed = replace(problem, reference=reference, starter_code="", entry_point=None)
    return in_language(changed, language, "language")
