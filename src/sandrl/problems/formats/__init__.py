"""The formats of rows of problems, by families, and the recognition of a row's format.

Formats are tried in the order of a table, the most specific fields first, and the first match is the format of the row.
From then on a row must be right in every field of it. A field that looks like tests and is not used by the format makes
the row an error: if checks were left out silently, the scores would be those of another set.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandrl.errors import InputError
from sandrl.jsonl import Row
from sandrl.problems.fields import parse_row
from sandrl.problems.formats.contests import CODE_CONTESTS, CODEFORCES, LIVE_CODE_BENCH, SANDBOX_FUSION
from sandrl.problems.formats.evalplus import EVALPLUS
from sandrl.problems.formats.mathematics import AIME, GSM8K, MATH
from sandrl.problems.formats.own import BESIDES_CHECKS, OWN, own_row
from sandrl.problems.formats.python_tests import (
    BIGCODEBENCH,
    HUMANEVAL,
    HUMANEVAL_PACK,
    KODCODE,
    LEET_CODE,
    MBPP,
    MULTIPL_E,
)
from sandrl.problems.formats.repositories import MULTI_SWE, R2E_GYM, SWE_BENCH
from sandrl.problems.formats.row import (
    Format,
    first_language,
    id_field,
    in_asked_language,
    in_language,
    row_name,
)
from sandrl.problems.formats.training_sets import (
    ACE_CODE,
    APPS,
    DEEPCODER,
    NEMO_GYM,
    PRIME_INTELLECT,
    RLVR,
    VERL,
)
from sandrl.problems.problem import Problem
from sandrl.problems.recognition import nearest_of, unknown_fields

__all__ = ["FORMATS", "Format", "ParsedProblem", "own_row", "parse_problem"]

FORMATS = (
    SWE_BENCH,
    R2E_GYM,
    MULTI_SWE,
    EVALPLUS,
    CODEFORCES,
    MULTIPL_E,
    LIVE_CODE_BENCH,
    CODE_CONTESTS,
    APPS,
    PRIME_INTELLECT,
    VERL,
    BIGCODEBENCH,
    KODCODE,
    SANDBOX_FUSION,
    DEEPCODER,
    MBPP,
    HUMANEVAL_PACK,
    LEET_CODE,
    HUMANEVAL,
    ACE_CODE,
    RLVR,
    NEMO_GYM,
    GSM8K,
    AIME,
    MATH,
    OWN,
)
"""In the order in which they are tried."""

_LOOKS_LIKE_TESTS = re.compile(r"(.*_)?(tests?|asserts?|assertions?|check|checks|checker|cases)(_.*)?|input_output")
# They say how tests are run, or count them.
_NO_TESTS = re.compile(r"(.*_)?(count|num|number|type|kind|time|timeout|timeout_seconds)")
_PROMPTS = ("problem", "question", "text", "description", "instruction", "query", "content")


@dataclass(frozen=True, slots=True)
class ParsedProblem:
    problem: Problem
    format: Format
    recognised_by: tuple[str, ...]


def parse_problem(
    row: Row,
    path: str | Path,
    set_name: str = "",
    *,
    is_mapped: bool = False,
    language: str | None = None,
    has_tasks: bool = True,
) -> ParsedProblem:
    """Makes a problem of a row in any of the formats.

    Args:
        set_name: The set that it is of, which rows without a name of their own are numbered in; none if empty.
        is_mapped: Whether the user has said which fields are meant: it is of sandrl's own format, and what else looks
            like tests is left out on purpose.
        language: The language that the user asks for, by its name in the table, where the row names none.
        has_tasks: Whether the row may name the directory of a task on this machine; relative to that of its file.

    Raises:
        InputError: If a field is missing or wrong, no format has such fields, or the row has no check, checks of more
            than one kind, or some that its format does not use.
    """
    found = None
    if any(map(_is_nan, row.value.values())):
        # As pandas writes what a row lacks.
        row = Row(row.line, {name: each for name, each in row.value.items() if not _is_nan(each)}, row.path)
    try:
        found = _format_of(row.value, (OWN,) if is_mapped else FORMATS)
        is_named = found.named is None or row.value.get(id_field(row.value)) is not None
        name = (not is_named and found.named and found.named(row.value)) or row_name(row, set_name)
        named = first_language(row.value) if found.is_python else None
        if found.is_python and not is_mapped:
            _refuse_unused_tests(row.value, found)
        if named is not None or (language is not None and found.has_solutions_by_language):
            row = Row(row.line, {**row.value, "language": language if named is None else named[0]}, row.path)
        if found is OWN and isinstance(row.value.get("task"), str):
            return ParsedProblem(_task_of(row, path, name, has_tasks=has_tasks), found, ("task",))
        problem = parse_row(found.row, row, path).to_problem(name)
        if named is not None:
            problem = in_language(problem, *named)
        if language is not None and problem.task is None:
            named = named or found.inner_language(row.value)
            problem = in_asked_language(problem, language, named, keeps_reference=found.has_solutions_by_language)
        return ParsedProblem(problem, found, found.recognised_by(row.value))
    except InputError as error:
        if error.path is not None and row.path == row.value.get("task"):
            raise  # the row is a directory, and the error names the file in it
        is_guess = found not in (None, OWN) and error.reason == "is missing"
        if found is not None and is_guess and error.field in found.row.model_fields:
            error = _guessed(row.value, found, error.field)
        raise error.at(path, row.line) from None


def _task_of(row: Row, path: str | Path, name: str, *, has_tasks: bool) -> Problem:
    if not has_tasks:
        message = "names a directory of this machine, which rows of others cannot do"
        hint = "name the directory, or a file that names it, where problems are loaded on this machine"
        raise InputError(message, field="task", hint=hint)
    given = row.value["task"]
    directory = Path(path).parent / given if Path(path).is_file() else Path(given)
    placed = Row(row.line, {**row.value, "task": str(directory)}, row.path)
    try:
        return parse_row(OWN.row, placed, path).to_problem(name)
    except InputError as error:
        if error.path is None or row.path == given:
            raise
        raise InputError(error.message, field="task", hint=error.hint, fields=error.fields) from error


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _format_of(value: Mapping[str, Any], formats: tuple[Format, ...]) -> Format:
    for each in formats:
        if each.recognises(value):
            return each
    if not value:
        raise InputError("the row has no fields")
    if {"task_id", "prompt"} <= value.keys() <= BESIDES_CHECKS:
        return OWN  # without a check, as its problem says
    nearest = nearest_of(formats, value, lambda each: each is OWN)
    raise InputError(
        unknown_fields(value, nearest),
        hint="assign them with `fields`, for example prompt=question,tests=asserts; checks are `tests`"
        ' (asserts), `cases` (stdin and stdout), or `check`: "exit_status"',
        fields=("fields",),
    )


def _guessed(value: Mapping[str, Any], found: Format, field: str) -> InputError:
    known = found.recognised_by(value)
    prompt = next((name for name in _PROMPTS if isinstance(value.get(name), str)), "question")
    return InputError(
        f"is missing; the row is taken for {found.name} by {', '.join(f'`{name}`' for name in known)}",
        field=field,
        hint=f"add the field, or assign the fields with `fields`, for example prompt={prompt},tests={known[-1]}",
        fields=("fields",),
    )


def _refuse_unused_tests(value: Mapping[str, Any], found: Format) -> None:
    used = found.row.model_fields.keys() | found.ignored
    for name, content in value.items():
        if name in used or not isinstance(content, str | list | dict) or not content:
            continue
        if _LOOKS_LIKE_TESTS.fullmatch(name) and not _NO_TESTS.fullmatch(name):
            raise InputError(
                f"looks like tests, but the format of this row ({found.name}) does not use it",
                field=name,
                hint="remove the field if its tests are not meant, or assign the fields with `fields`, for example"
                f" prompt=question,tests={name}",
                fields=("fields",),
            )
