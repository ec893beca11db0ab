"""The language that a row names for its programs.

A row is judged in the language that it names, and refused if that is impossible: because the language is not in the
table, or because the checks are Python code. Sets name the natural language of their text in the same fields, so the
name of a natural language is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sandrl.errors import InputError
from sandrl.problems.languages import PYTHON, find_language, language_named
from sandrl.problems.preludes import STANDARD
from sandrl.problems.problem import Problem

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

    Other code of its row is left out: it is in the language that the row was written for.

    Args:
        named: The language that the row names, and where; None where it names none.
        keeps_reference: Whether its reference is in the language that is asked for.
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
