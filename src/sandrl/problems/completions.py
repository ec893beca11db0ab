"""Loads completions from every kind of source; several rows of one problem are its samples."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from sandrl.errors import InputError
from sandrl.jsonl import STANDARD_INPUT, Row
from sandrl.problems.completion import Completion
from sandrl.problems.completion_files import read_completion_rows
from sandrl.problems.completion_formats import NAMING, ParsedCompletions, parse_completions
from sandrl.problems.completion_formats.format import TASK_FIELDS, ReadContext, Task
from sandrl.problems.completion_formats.rows import possible_names
from sandrl.problems.formats.row import identifier_of
from sandrl.problems.loading import add_rows, as_entry, entries, load_problems, no_rows
from sandrl.problems.mapping import CompletionMap
from sandrl.problems.problem import Problem
from sandrl.problems.recognition import KnownNames
from sandrl.problems.sources import DATA, DEMO_PROBLEMS
from sandrl.problems.store import CompletionStore

CompletionsLike: TypeAlias = "str | Path | Iterable[Completion | Mapping[str, Any]]"
"""Completions as Python code gives them: where to load them from, or completions and rows."""


@dataclass(frozen=True, slots=True)
class LoadedCompletions:
    """The result of `load_completions`.

    Attributes:
        completions: The completions, in the order of the file; on the disk if they are many.
        skipped: The error of each row that was left out; empty unless `skip_bad_rows` was set.
        formats: The number of rows of each format that was recognised, by its name.
    """

    completions: Sequence[Completion]
    skipped: tuple[InputError, ...] = ()
    formats: Mapping[str, int] = field(default_factory=dict)


def load_completions(
    source: str | Path,
    *,
    task_ids: Collection[str] | None = None,
    skip_bad_rows: bool = False,
    fields: Sequence[str] = (),
) -> LoadedCompletions:
    """Loads completions from a file, in any of the formats of the field.

    A completion without an `id` is named by its `task_id`, with the number of the sample (`task#2`) if the problem has
    several completions. All rows are read and checked, one at a time, and many completions are kept on the disk.

    Args:
        source: The path of a file of JSON lines, JSON, CSV or parquet, or of a log of inspect (`.eval`); `-` for
            standard input; or a directory: of a run, of samples of EvalPlus, or of such files. Rows may have any format
            of `sandrl.problems.completion_formats`.
        task_ids: The names of all problems, in their order; a row with another `task_id` is a bad row. None accepts
            every name.
        skip_bad_rows: Leave bad rows out and report them in `skipped`, instead of raising the error of the first one.
        fields: The meaning of the fields of rows in an unknown format: `completion=reply`, or `task_id=meta.task` for a
            field within another one.

    Returns:
        The completions in the order of the file, and the errors of the rows that were left out.

    Raises:
        UsageError: If a field is unknown.
        InputError: If the source cannot be read, a row is bad, or no completion is left; the message names file, line
            and field.
        MissingExtraError: If the source requires a library that is not installed.
    """
    store, reading = CompletionStore(), ReadContext(task_ids)
    mapping = CompletionMap.of(fields)
    formats: Counter[str] = Counter()

    def add(row: Row) -> None:
        path = row.path or source
        parsed = _parsed(row, path, reading, mapping)
        identifier = _own_id(row, parsed, path)
        if identifier and len(parsed.answers) == 1 and (line := store.line_of(identifier)) is not None:
            message = f"{identifier!r} is already used in line {line}; it must be unique"
            raise InputError(message, path=path, line=row.line, field="id")
        _add(store, parsed, identifier, row.line)
        formats[parsed.format.name] += 1

    with closing(read_completion_rows(source, task_ids)) as rows:
        skipped = add_rows(rows, add, skip_bad_rows=skip_bad_rows)
    if reading.positions and task_ids is not None and reading.positions != len(task_ids):
        raise InputError(
            f"has {reading.positions} entries without names, and there are {len(task_ids)} problems: each such entry"
            " answers the problem at its position",
            path=source,
            hint="select the matching set or split with `problems`",
            fields=("problems",),
        )
    if not len(store):
        raise no_rows("completions", source, skipped)
    if mapping is not None:
        mapping.refuse_missing(source)
    return LoadedCompletions(store.named(), tuple(skipped), dict(formats))


# Reading a larger file twice takes longer than keeping all problems.
_MOST_READ_TWICE = 64 << 20


def named_tasks(source: str, fields: Sequence[str] = ()) -> frozenset[str] | None:
    """The names in a file of completions that may be those of problems; None if it does not say, or is read once."""
    path = Path(source)
    if source == STANDARD_INPUT or not (path.is_dir() or path.is_file()) or path.stat().st_size > _MOST_READ_TWICE:
        return None
    mapping, named = CompletionMap.of(fields), set[str]()
    try:
        with closing(read_completion_rows(source, ())) as rows:
            for row in rows:
                if not isinstance(row, Row):
                    continue
                value = row.value if mapping is None else mapping.apply(row).value
                if not any(each in value for each in TASK_FIELDS) or "doc_id" in value or "solution" in value:
                    return None  # by a position or a folder
                for name in (value[each] for each in TASK_FIELDS if each in value):
                    if isinstance(name, str | int):
                        named.update(possible_names(str(name)))
    except InputError:
        return None
    return frozenset(named)


def as_completions(given: CompletionsLike, task_ids: Collection[str]) -> Sequence[Completion]:
    """Completions, however Python code gives them. The `InputError` for a wrong one names its place and its field."""
    if isinstance(given, str | Path):
        return load_completions(given, task_ids=task_ids).completions
    if isinstance(given, CompletionStore):
        return given  # was checked when it was loaded
    store, reading = CompletionStore(), ReadContext(task_ids)
    for position, value in enumerate(entries("completions", given)):
        place = f"completions[{position}]"
        if isinstance(value, Completion):
            if value.task_id not in task_ids:
                raise _unknown_task(Task(value.task_id, "task_id"), reading.known, place)
            store.add(value)
            continue

        def parse(row: Row, place: str) -> tuple[ParsedCompletions, str]:
            parsed = _parsed(row, place, reading, None)
            return parsed, _own_id(row, parsed, place)

        parsed, identifier = as_entry(place, value, parse)
        _add(store, parsed, identifier)
    return store.named()


# Adds the completions of a row; the name that it gives is that of the only one, or begins those of several.
def _add(store: CompletionStore, parsed: ParsedCompletions, identifier: str, line: int = 0) -> None:
    for number, answer in enumerate(parsed.answers, 1):
        name = identifier if len(parsed.answers) == 1 or not identifier else f"{identifier}#{number}"
        store.add(replace(answer, id=name, task_id=parsed.task.name), line)


def _parsed(row: Row, path: str | Path, reading: ReadContext, mapping: CompletionMap | None) -> ParsedCompletions:
    reading.line = row.line
    try:
        mapped = row if mapping is None else mapping.apply(row)
        parsed = parse_completions(mapped.value, reading)
        if reading.known is not None and parsed.answers and parsed.task.name not in reading.known:
            raise _unknown_task(parsed.task, reading.known, path)
    except InputError as error:
        place = error.field if mapping is None else mapping.place_of(error.field)
        raise error.at(path, row.line or None, field=place) from error.__cause__
    return parsed


# The name that a row gives its completion, where `id` does not name the problem; else empty.
def _own_id(row: Row, parsed: ParsedCompletions, path: str | Path) -> str:
    if parsed.task.field == "id" or parsed.format not in NAMING or row.value.get("id") is None:
        return ""
    if row.value.get("step") is not None:
        return ""  # of a run, whose ids repeat from step to step
    return identifier_of(row, "id", path)


def _unknown_task(task: Task, known: KnownNames | None, source: str | Path) -> InputError:
    assert known is not None, "the problems are known"
    return InputError(
        f"there is no problem {task.name!r}{known.did_you_mean(task.name)}",
        path=source,
        field=task.field,
        hint=f"the problems are named {known.form}; select the matching set with `problems`",
        fields=("problems",),
    )


def reference_completions(problems: Iterable[Problem]) -> tuple[Completion, ...]:
    """Returns a completion with the reference solution of every problem that has one, in the same order."""
    return tuple(
        Completion(id=problem.task_id, task_id=problem.task_id, code=problem.reference)
        for problem in problems
        if problem.reference is not None
    )


def expected_answer(problem: Problem) -> str:
    """A program in Python that prints for each case what the case expects: a checker must accept it."""
    outputs = {case.stdin: case.stdout for case in problem.cases}
    packed = base64.b64encode(zlib.compress(json.dumps(outputs).encode("ascii"), 9)).decode("ascii")
    return (
        "import base64, json, sys, zlib\n"
        f"outputs = json.loads(zlib.decompress(base64.b64decode({packed!r})))\n"
        "given = sys.stdin.buffer.read().decode('utf-8', 'surrogatepass')\n"
        "sys.stdout.buffer.write(outputs[given].encode('utf-8', 'surrogatepass'))\n"
    )


def demo_problems() -> Mapping[str, Problem]:
    """Returns slow-sum, string-ops, delayed-error, syntax-error and slow-list, by `task_id`."""
    return load_problems(DEMO_PROBLEMS).problems


def demo_completions() -> Sequence[Completion]:
    """Returns a completion of each; they sleep 2, 0, 1, 0 and 3 s, and pass, pass, fail, fail and pass."""
    return load_completions(DATA / "demo_completions.jsonl").completions
