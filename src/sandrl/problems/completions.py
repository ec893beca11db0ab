"""Loads completions from a file or standard input; several rows of one problem are its samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from sandrl.errors import InputError
from sandrl.jsonl import STANDARD_INPUT, Row, read_rows
from sandrl.problems.fields import Identifier, InputRow, check_text, parse_row
from sandrl.problems.known_names import KnownNames
from sandrl.problems.loading import add_rows, as_entry, entries, no_rows


@dataclass(frozen=True, slots=True)
class Completion:
    """The output of a model for a problem: text from which the code is extracted, or the code itself.

    Attributes:
        id: Its name, unique among the completions that are scored together; `score` replaces an empty one with the name
            of the problem.
        task_id: The `task_id` of its problem.
        completion: The model's text; None if there is only `code`.
        code: The code, used unchanged; None if it must be extracted from `completion`.
        loss: The reason why the completion cannot be scored, if a failure of the infrastructure ended it; else empty.

    Raises:
        InputError: If a field is not a string; `field` of the error names it.
    """

    id: str
    task_id: str
    completion: str | None = None
    code: str | None = None
    loss: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "task_id"):
            check_text(name, getattr(self, name))
        for name in ("completion", "code"):
            check_text(name, getattr(self, name), is_optional=True)


CompletionsLike: TypeAlias = "str | Path | Iterable[Completion | Mapping[str, Any]]"
"""Completions as Python code gives them: where to load them from, or completions and rows."""


@dataclass(frozen=True, slots=True)
class LoadedCompletions:
    """The result of `load_completions`.

    Attributes:
        completions: The completions, in the order of the file.
        skipped: The error of each row that was left out; empty unless `skip_bad_rows` was set.
    """

    completions: tuple[Completion, ...]
    skipped: tuple[InputError, ...] = ()


class CompletionRow(InputRow):
    """A row of a completions file."""

    task_id: Identifier
    completion: str | None = None
    code: str | None = None
    id: Identifier | None = None


def load_completions(
    source: str | Path, *, task_ids: Collection[str] | None = None, skip_bad_rows: bool = False
) -> LoadedCompletions:
    """Loads completions from a file of JSON lines.

    A row has `task_id`, and either `completion` (a model's text) or `code`. A row without an `id` is named by its
    `task_id`, with the number of the sample (`task#2`) if the problem has several completions.

    Args:
        source: The path of a `.jsonl` or `.jsonl.gz` file, or `-` for standard input.
        task_ids: The names of all problems; a row with another `task_id` is a bad row. None accepts every name.
        skip_bad_rows: Leave bad rows out and report them in `skipped`, instead of raising the error of the first one.

    Returns:
        The completions in the order of the file, and the errors of the rows that were left out.

    Raises:
        InputError: If the source cannot be read, a row is bad, or no completion is left; the message names file, line
            and field.
    """
    completions: list[Completion] = []
    lines: dict[str, int] = {}
    known = None if task_ids is None else KnownNames(task_ids)

    def add(row: Row) -> None:
        completion = _parse(row, source, known)
        if known is not None and completion.task_id not in known:
            raise _unknown_task(completion.task_id, known, source).at(source, row.line)
        if completion.id and completion.id in lines:
            message = f"{completion.id!r} is already used in line {lines[completion.id]}; it must be unique"
            raise InputError(message, path=source, line=row.line, field="id")
        completions.append(completion)
        lines[completion.id] = row.line

    skipped = add_rows(read_rows(source), add, skip_bad_rows=skip_bad_rows)
    if not completions:
        raise no_rows("completions", source, skipped)
    return LoadedCompletions(_named(completions), tuple(skipped))


def named_tasks(source: str) -> frozenset[str] | None:
    """The problems that the good rows of a file of completions name; None for what cannot be read twice."""
    if source == STANDARD_INPUT or not Path(source).is_file():
        return None
    try:
        named = (row.value.get("task_id") for row in read_rows(source) if isinstance(row, Row))
        return frozenset(str(name) for name in named if isinstance(name, str | int))
    except InputError:
        return None


def as_completions(given: CompletionsLike, task_ids: Collection[str]) -> tuple[Completion, ...]:
    """Completions, however Python code gives them.

    Args:
        given: Where to load them from, as `load_completions` takes it, or completions and rows (dictionaries).
        task_ids: The problems there are.

    Raises:
        InputError: If one is neither, is wrong, or answers none of these problems; its place and its field are named.
    """
    if isinstance(given, str | Path):
        return load_completions(given, task_ids=task_ids).completions
    completions = []
    known = KnownNames(task_ids)

    def parse(row: Row, place: str) -> Completion:
        return _parse(row, place, known)

    for position, value in enumerate(entries("completions", given)):
        place = f"completions[{position}]"
        completion = value if isinstance(value, Completion) else as_entry(place, value, parse)
        if completion.task_id not in known:
            raise _unknown_task(completion.task_id, known, place)
        completions.append(completion)
    return _named(completions)


_NAMING = ("id", "question_id", "problem_id", "name")
_ANSWERING = ("response", "output", "generation", "answer", "text", "solution", "completions", "samples")


def _parse(row: Row, source: str | Path, known: KnownNames | None = None) -> Completion:
    try:
        parsed = parse_row(CompletionRow, row, source)
    except InputError as error:
        raise _unnamed(error, row.value, known) from error
    if parsed.completion is None and parsed.code is None:
        message = "is missing; give the model's text as `completion`, or code alone as `code`"
        found = next((name for name in _ANSWERING if row.value.get(name)), None)
        hint = (
            None if found is None else f"the row has `{found}`: if that is the model's text, rename it to `completion`"
        )
        raise InputError(message, path=source, line=row.line, field="completion", hint=hint)
    if parsed.completion is not None and parsed.code is not None:
        raise InputError(
            "the row has both `completion` and `code`, and only one can be judged",
            path=source,
            line=row.line,
            hint="keep `completion` to extract the code from the text, or `code` to use it unchanged",
        )
    return Completion(parsed.id or "", parsed.task_id, parsed.completion, parsed.code)


def _unknown_task(task_id: str, known: KnownNames, source: str | Path) -> InputError:
    return InputError(
        f"there is no problem {task_id!r}{known.did_you_mean(task_id)}",
        path=source,
        field="task_id",
        hint=f"the problems are named {known.form}; select the matching set with `problems`",
        fields=("problems",),
    )


def _unnamed(error: InputError, row: Mapping[str, Any], known: KnownNames | None) -> InputError:
    """The error of a row without a `task_id`, with what it may be."""
    if error.field != "task_id" or row.get("task_id") is not None:
        return error
    named = [f"`{name}`" for name in _NAMING if isinstance(row.get(name), str | int)]
    hints = [f"the problems are named {known.form}"] if known is not None else []
    if named:
        hints.append(f"the row has {' and '.join(named)}: if that names the problem, rename it to `task_id`")
    return InputError("is missing", path=error.path, line=error.line, field="task_id", hint="; ".join(hints) or None)


def _named(completions: Iterable[Completion]) -> tuple[Completion, ...]:
    """Gives every completion without an id one that no other has."""
    completions = tuple(completions)
    samples = Counter(completion.task_id for completion in completions)
    taken = {completion.id for completion in completions if completion.id}
    seen: Counter[str] = Counter()
    named = []
    for completion in completions:
        task_id = completion.task_id
        seen[task_id] += 1
        identifier = completion.id
        if not identifier:
            number = seen[task_id]
            identifier = task_id if samples[task_id] == 1 else f"{task_id}#{number}"
            while identifier in taken:
                number += 1
                identifier = f"{task_id}#{number}"
            taken.add(identifier)
        named.append(replace(completion, id=identifier))
    return tuple(named)
