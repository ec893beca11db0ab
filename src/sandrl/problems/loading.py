"""Loads problems from every kind of source, and checks all of them before the first sandbox starts."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, TypedDict, TypeVar

from sandrl.errors import InputError, UsageError
from sandrl.jsonl import BadRow, Row
from sandrl.problems.case_choice import with_most_cases
from sandrl.problems.fields import plain
from sandrl.problems.formats import ParsedProblem, own_row, parse_problem
from sandrl.problems.formats.row import id_field
from sandrl.problems.languages import language_named
from sandrl.problems.mapping import FieldMap
from sandrl.problems.preludes import prelude_of
from sandrl.problems.problem import Problem
from sandrl.problems.quality import QualityFilter
from sandrl.problems.recognition import KnownNames
from sandrl.problems.sources import find_source
from sandrl.problems.store import ProblemStore, Selection
from sandrl.problems.tables import file_set, is_file_name

ProblemsLike: TypeAlias = (
    "str | Path | Mapping[str, Problem | Mapping[str, Any]] | Iterable[Problem | Mapping[str, Any]]"
)
"""Problems as Python code gives them: where to load them from, or problems and rows, by `task_id` or in a list."""


_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class FoundFormat:
    """The format that rows were recognised as, by which fields, and the kind of their checks (`Problem.kind`)."""

    name: str
    fields: tuple[str, ...]
    kind: str


@dataclass(frozen=True, slots=True)
class LoadedProblems:
    """The result of `load_problems`.

    Attributes:
        problems: The requested problems by `task_id`, in the order of the source.
        skipped: The error of each row that was left out; empty unless `skip_bad_rows` was set.
        formats: The number of rows of each format that was recognised.
        names: The names of all problems of the source, those not requested included.
    """

    problems: Mapping[str, Problem]
    skipped: tuple[InputError, ...] = ()
    formats: Mapping[FoundFormat, int] = field(default_factory=dict)
    names: Collection[str] = ()

    @property
    def note(self) -> str:
        """How many rows were left out, and why the first; empty for none."""
        count = len(self.skipped)
        return f"{count} rows of problems skipped; the first: {self.skipped[0].message}" if count else ""

    def find(self, task_id: str) -> Problem:
        """Returns the problem with this name; the `InputError` without one shows the most similar name."""
        if task_id not in self.problems:
            hint = "sandrl problems ls SET|FILE lists the names"
            did_you_mean = KnownNames(self.names).did_you_mean(task_id)
            raise InputError(f"there is no problem {task_id!r}{did_you_mean}", hint=hint)
        return self.problems[task_id]


@dataclass(frozen=True, slots=True)
class _RowOptions:
    prelude: str
    field_map: FieldMap | None
    max_cases: int | None
    language: str | None
    has_tasks: bool = True

    @classmethod
    def of(
        cls,
        prelude: str | None,
        fields: Sequence[str],
        max_cases: int | None,
        language: str | None,
        *,
        has_tasks: bool = True,
    ) -> Self:
        try:
            before = prelude_of(prelude)
        except ValueError as error:
            raise UsageError(f"prelude {error}", fields=("prelude",)) from error
        try:
            language = None if language is None else language_named(language).name
        except InputError as error:
            raise UsageError(f"language {error.reason}", fields=("language",)) from error
        return cls(before, FieldMap.of(fields), max_cases, language, has_tasks)


def load_problems(
    source: str | Path,
    *,
    skip_bad_rows: bool = False,
    prelude: str | None = None,
    fields: Sequence[str] = (),
    max_cases: int | None = None,
    language: str | None = None,
    only: Collection[str] | None = None,
    quality: QualityFilter | None = None,
    on_problem: Callable[[Problem], None] | None = None,
) -> LoadedProblems:
    """Loads problems from a file, a directory, a named set or the dataset hub.

    All rows are read and checked, one at a time, and the problems of a large set are kept on the disk. So memory grows
    with the number of problems, and not with the size of their checks.

    Args:
        source: `bundled`, `toy` or `tiny`; `mbpp`, `humaneval` or another set of the dataset hub, by its short name or
            as `owner/name`; the path of a `.jsonl`, `.jsonl.gz`, `.json`, `.csv` or `.parquet` file; `-` for JSON lines
            on standard input; a directory of such files; or a directory of tasks, or of one task
            (`sandrl.problems.tasks`). Rows may have any format of `sandrl.problems.formats`. A split may follow after
            a colon (`mbpp:test`): not for `bundled` and `toy`; for a file, only MBPP's splits; for a directory of
            files, the first letters of their names.
        skip_bad_rows: Leave bad rows out and report them in `skipped`, instead of raising the error of the first one.
        prelude: The prelude of problems without a prelude of their own: `standard`, or Python code.
        fields: The meaning of the fields of rows in an unknown format: `prompt=question`, or `tests=info.asserts` for a
            field within another one; `fn:=two_sum` gives all rows the same value.
        max_cases: The largest number of cases or calls of a problem; `sandrl.problems.case_choice` selects them. None
            keeps all.
        language: The language of completions for rows that name none, by a name or an alias of
            `sandrl.problems.languages`. The checks of these rows must be runs of programs.
        only: The names of the problems to keep; None keeps all.
        quality: Of these, keep only what it accepts.
        on_problem: Called with each problem, also with those that are not kept.

    Returns:
        The problems by `task_id`, the formats that were recognised, and the errors of the rows that were left out.

    Raises:
        UsageError: If the prelude is not valid Python, or a field or the language is unknown.
        InputError: If the source cannot be read, a row is bad, or no problem is left; the message names file, line and
            field.
        MissingExtraError: If the source requires `datasets`, and it is not installed.
        ServiceError: If the hub does not answer, and its cache has no copy of the dataset.
    """
    found = find_source(source)
    options = _RowOptions.of(prelude, fields, max_cases, language, has_tasks=found.has_tasks)
    problems = ProblemStore()
    lines: dict[str, int | str] = {}
    formats: Counter[FoundFormat] = Counter()

    def add(row: Row) -> None:
        path = row.path or source
        parsed = _parsed(row, path, file_set(row.path) if row.path else found.name, options)
        problem = parsed.problem
        name = problem.task_id
        if name in lines:
            place = lines[name] if row.path else f"line {lines[name]}"
            reason = f"{name!r} is already used in {place}; it must be unique"
            raise InputError(reason, path=path, line=row.line, field=_id_field(row, options.field_map))
        lines[name] = f"{row.path}:{row.line}" if row.path else row.line
        if (only is None or name in only) and (quality is None or quality.accepts(problem)):
            problems.add(name, problem)
        if on_problem is not None:
            on_problem(problem)
        format_name = parsed.format.name
        if problem.task is not None and parsed.recognised_by == ("task",):
            format_name = problem.task.format
        formats[FoundFormat(format_name, parsed.recognised_by, problem.kind)] += 1

    skipped = add_rows(found.read(), add, skip_bad_rows=skip_bad_rows)
    if options.field_map is not None and lines:
        options.field_map.refuse_missing(source)
    if not lines:
        raise no_rows("problems", source, skipped)
    if quality is not None and not problems:
        quality.check_some_left(source)
    return LoadedProblems(problems, tuple(skipped), dict(formats), lines.keys())


def problem_of_row(
    value: object,
    place: str,
    *,
    prelude: str | None = None,
    fields: Sequence[str] = (),
    max_cases: int | None = None,
    language: str | None = None,
    has_tasks: bool = True,
) -> Problem:
    """Makes a problem of one row that is not in a file; for the arguments and errors see `load_problems`.

    `has_tasks` is whether the row may name the directory of a task on this machine.
    """
    options = _RowOptions.of(prelude, fields, max_cases, language, has_tasks=has_tasks)
    return as_entry(place, value, lambda row, path: _parsed(row, path, "", options)).problem


def with_options(problem: Problem, *, prelude: str = "", max_cases: int | None = None) -> Problem:
    """A problem with the prelude of a run, unless it has its own, and with at most `max_cases` cases or calls."""
    if prelude and not problem.prelude and problem.is_python and problem.task is None:
        problem = replace(problem, prelude=prelude)
    return with_most_cases(problem, max_cases)


def write_problems(problems: Iterable[Problem], path: Path) -> None:
    """Writes problems as rows of sandrl's own format, to a new `.jsonl` or `.jsonl.gz` file."""
    if is_file_name(path.name) and not path.name.lower().endswith((".jsonl", ".jsonl.gz")):
        raise InputError("rows are written as JSON lines; end the name of the file with .jsonl or .jsonl.gz", path=path)
    try:
        with path.open("xb") as file:
            # Without a time and a name in it, the same problems make the same file.
            is_packed = path.name.endswith(".gz")
            stream = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) if is_packed else file
            with stream:
                for problem in problems:
                    stream.write(json.dumps(own_row(problem)).encode() + b"\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from error


def as_problems(given: ProblemsLike) -> Mapping[str, Problem]:
    """Problems by `task_id`, however Python code gives them.

    The `InputError` for a wrong one names its place and its field.
    """
    if isinstance(given, str | Path):
        return load_problems(given).problems
    if isinstance(given, ProblemStore | Selection):
        return given
    problems: dict[str, Problem] = {}
    named = given.items() if isinstance(given, Mapping) else enumerate(entries("problems", given))
    for key, value in named:
        place = f"problems[{key!r}]"
        if isinstance(value, Problem):
            problem = value
        else:
            row = {"task_id": key, **value} if isinstance(given, Mapping) and isinstance(value, Mapping) else value
            problem = as_entry(place, row, parse_problem).problem
        name = key if isinstance(key, str) else problem.task_id
        if name in problems:
            raise InputError(
                f"{name!r} is already used by an earlier problem; it must be unique", path=place, field="task_id"
            )
        problems[name] = problem
    return problems


def entries(noun: str, given: object) -> Iterable[Any]:
    """Checks that a value is a list of problems or completions, and no single problem, row or text."""
    if isinstance(given, Problem | Mapping | str | bytes) or not isinstance(given, Iterable):
        raise UsageError(f"{noun} must be a list of {noun} or of dictionaries, not of the type {type(given).__name__}")
    return given


def as_entry(place: str, given: object, parse: Callable[[Row, str], _Entry]) -> _Entry:
    """Makes a problem or a completion of a dictionary, which is checked like a row of a file."""
    if not isinstance(given, Mapping):
        raise InputError(f"must be a dictionary, or a Problem or Completion of sandrl, not {given!r:.60}", path=place)
    row = {key: list(value) if isinstance(value, tuple) else value for key, value in plain(given).items()}
    try:
        return parse(Row(0, row), place)
    except InputError as error:
        raise error.at(place) from None


def _parsed(row: Row, path: str | Path, set_name: str, options: _RowOptions) -> ParsedProblem:
    field_map = options.field_map
    try:
        mapped = row if field_map is None else field_map.apply(row)
    except InputError as error:
        raise error.at(path, row.line) from error
    try:
        parsed = parse_problem(
            mapped,
            path,
            set_name,
            is_mapped=field_map is not None,
            language=options.language,
            has_tasks=options.has_tasks,
        )
    except InputError as error:
        if field_map is None:
            raise
        raise error.at(path, row.line, field=field_map.place_of(error.field)) from error
    problem = with_options(parsed.problem, prelude=options.prelude, max_cases=options.max_cases)
    return replace(parsed, problem=problem)


def _id_field(row: Row, field_map: FieldMap | None) -> str:
    if field_map is not None and "task_id" in field_map.paths:
        return field_map.place_of("task_id") or ""
    return id_field(row.value)


def add_rows(rows: Iterable[Row | BadRow], add: Callable[[Row], None], *, skip_bad_rows: bool) -> list[InputError]:
    """Adds rows to what is being loaded; returns the errors of bad ones if these are skipped, else raises the first."""
    skipped: list[InputError] = []
    for row in rows:
        try:
            if isinstance(row, BadRow):
                raise row.error
            add(row)
        except InputError as error:
            if not skip_bad_rows:
                raise
            skipped.append(error)
    return skipped


def no_rows(noun: str, source: str | Path, skipped: list[InputError]) -> InputError:
    """Returns the error for a file of which nothing can be used."""
    if not skipped:
        return InputError(f"the file is empty: it has no {noun}", path=source)
    return InputError(
        f"no {noun} are left: all {len(skipped)} rows are bad; the first error is: {skipped[0]}", path=source
    )


class Reading(TypedDict, total=False):
    prelude: str | None
    fields: Sequence[str]
    max_cases: int | None
    language: str | None


class _Configuration(Protocol):
    @property
    def prelude(self) -> str | None: ...

    @property
    def fields(self) -> tuple[str, ...]: ...

    @property
    def max_cases(self) -> int | None: ...

    @property
    def language(self) -> str | None: ...


def reading_of(config: _Configuration) -> Reading:
    """How a configuration has problems read; a filter by their quality is none of it."""
    return Reading(prelude=config.prelude, fields=config.fields, max_cases=config.max_cases, language=config.language)
