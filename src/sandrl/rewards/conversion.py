"""Converts sets of problems: to rows of sandrl's own format, or to task directories of Harbor, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sandrl.errors import InputError
from sandrl.judge.limits import Limits
from sandrl.judge.task_files import task_files, task_table
from sandrl.problems import Problem, write_problems
from sandrl.problems.tables import is_file_name
from sandrl.problems.tasks.writing import TaskWriter, original_problem, write_terminal_bench


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was written, and why the other problems were left out, by their names."""

    written: int
    left_out: dict[str, str]


def convert(problems: Iterable[Problem], out: Path) -> Conversion:
    """Writes problems to a new file of rows, if its name ends as one of a file, or else to a new directory of tasks.

    Raises:
        InputError: If it exists or cannot be written, or nothing can be converted.
    """
    left_out: dict[str, str] = {}
    written = _write_rows(problems, out, left_out) if is_file_name(out.name) else _write_tasks(problems, out, left_out)
    if not written:
        name, why = next(iter(left_out.items()), ("", "there are no problems"))
        if out.is_dir():
            out.rmdir()
        else:
            out.unlink(missing_ok=True)
        raise InputError(f"nothing can be converted: {name}{': ' if name else ''}{why}", path=out)
    return Conversion(written, left_out)


def _write_rows(problems: Iterable[Problem], out: Path, left_out: dict[str, str]) -> int:
    count = 0

    def originals() -> Iterator[Problem]:
        nonlocal count
        for problem in problems:
            found: Problem | None = problem
            try:
                if problem.task is not None and (found := original_problem(problem.task)) is None:
                    left_out[problem.task_id] = "is a task that was not written for a problem of sandrl"
            except InputError as error:
                left_out[problem.task_id] = error.message
                continue
            if found is not None:
                count += 1
                yield found

    write_problems(originals(), out)
    return count


def _write_tasks(problems: Iterable[Problem], out: Path, left_out: dict[str, str]) -> int:
    writer, limits, count = TaskWriter(out), Limits(), 0
    for problem in problems:
        try:
            if problem.task is None:
                writer.write(problem.task_id, task_files(problem, limits), task_table(problem, limits))
            elif problem.task.format.startswith("harbor "):
                writer.copy(problem.task_id, problem.task)
            elif problem.task.format.startswith("terminal-bench "):
                write_terminal_bench(writer, problem.task_id, problem.task)
            else:
                raise InputError(f"is a task of {problem.task.format}, which has no directory")
        except InputError as error:
            left_out[problem.task_id] = error.reason
            continue
        count += 1
    return count
