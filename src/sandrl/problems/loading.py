"""Problems from the bundled set or a file, all of them checked before the first sandbox starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandrl.errors import InputError
from sandrl.jsonl import BadRow, read_rows
from sandrl.problems.problem import Problem
from sandrl.problems.rows import parse_problem

BUNDLED = "bundled"
"""The source that needs no file: the problems that come with sandrl."""

DATA = Path(__file__).with_name("data")

_WHAT_WORKS = "use `bundled`, or a local .jsonl or .jsonl.gz file"


@dataclass(frozen=True, slots=True)
class LoadedProblems:
    """Problems, and what could not be read as one.

    Attributes:
        problems: By `task_id`, in the order of the file.
        skipped: Why each bad row was left out; empty unless bad rows were to be skipped.
    """

    problems: dict[str, Problem]
    skipped: tuple[InputError, ...] = ()


def load_problems(source: str | Path, *, skip_bad_rows: bool = False) -> LoadedProblems:
    """Loads problems.

    Args:
        source: `bundled`, or a `.jsonl` or `.jsonl.gz` file with rows in sandrl's own, MBPP's or HumanEval's format.
        skip_bad_rows: Leave bad rows out and report them, instead of refusing the file.

    Raises:
        InputError: If the source cannot be used, a row is bad, or no problem is left.
    """
    if source == BUNDLED:
        source = DATA / "demo_problems.jsonl"
    _require_supported(source)
    problems: dict[str, Problem] = {}
    lines: dict[str, int] = {}
    skipped: list[InputError] = []
    for row in read_rows(source):
        try:
            if isinstance(row, BadRow):
                raise row.error
            problem = parse_problem(row, source)
            if problem.task_id in problems:
                message = f"{problem.task_id!r} is taken by line {lines[problem.task_id]}"
                raise InputError(message, path=source, line=row.line, field="task_id")
        except InputError as error:
            if not skip_bad_rows:
                raise
            skipped.append(error)
        else:
            problems[problem.task_id] = problem
            lines[problem.task_id] = row.line
    if not problems:
        raise no_rows("problems", source, skipped)
    return LoadedProblems(problems, tuple(skipped))


def no_rows(noun: str, source: str | Path, skipped: list[InputError]) -> InputError:
    """Returns the error for a file of which nothing can be used."""
    if not skipped:
        return InputError(f"the file is empty: it has no {noun}", path=source)
    return InputError(f"no {noun} are left: all {len(skipped)} rows are bad, the first is: {skipped[0]}", path=source)


def _require_supported(source: str | Path) -> None:
    path = Path(source)
    if path.exists():
        if path.suffix == ".parquet":
            raise InputError("parquet files cannot be read yet", path=source, hint=_WHAT_WORKS)
        return
    if path.suffix in (".jsonl", ".gz", ".json", ".parquet") or isinstance(source, Path):
        raise InputError("no such file", path=source)
    raise InputError(f"no problem set or file is called {str(source)!r}", hint=_WHAT_WORKS)
