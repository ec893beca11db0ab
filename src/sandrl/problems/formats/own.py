"""sandrl's own format: all other formats are converted to it, and `problems convert` writes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal

from pydantic import Field

from sandrl.errors import InputError
from sandrl.problems.calls import Call, Comparison
from sandrl.problems.fields import Identifier, InputRow, Margin, Seconds, parse_value
from sandrl.problems.formats.row import Format, FormatRow, Prompt, named_language
from sandrl.problems.languages import PYTHON
from sandrl.problems.math_answers import boxed
from sandrl.problems.problem import Case, Problem, Tolerance
from sandrl.problems.problem_files import file_rows
from sandrl.problems.tasks.sources import read_task


class CaseRow(InputRow):
    stdin: str = ""
    stdout: str


class CallRow(InputRow):
    arguments: str
    expected: str | None = None
    name: str = ""


class ToleranceRow(InputRow):
    absolute: Margin = 0.0
    relative: Margin = 0.0
    words: bool = False


class ProblemRow(FormatRow):
    task_id: Identifier | None = None
    prompt: Prompt = ""
    tests: list[str] | None = None
    cases: list[Any] | None = None
    fn: str | None = None
    tolerance: ToleranceRow | None = None
    check: Literal["exit_status"] | None = None
    setup: str | None = None
    entry_point: str | None = None
    reference: str | None = None
    timeout_seconds: Seconds | None = None
    check_timeout_seconds: Seconds | None = None
    starter_code: str | None = None
    packages: list[str] | None = None
    language: str | None = None
    comparison: Annotated[Comparison, Field(strict=False)] | None = None
    checker: Any = None
    checker_timeout_seconds: Seconds | None = None
    files: Any = None
    input_file: str | None = None
    output_file: str | None = None
    memory_bytes: int | None = None
    image: str | None = None
    answer: str | int | float | None = None
    task: str | None = None

    def to_problem(self, name: str) -> Problem:
        if self.task is not None:
            return self._of_task(name, self.task)
        if "prompt" not in self.model_fields_set:
            raise InputError("is missing", field="prompt")
        given = {field: value for field in _AS_GIVEN if (value := getattr(self, field)) is not None}
        if not (self.tests or self.cases or self.check) and self.answer is not None:
            given["answer"] = str(self.answer)
        checks = {"cases": tuple(self._cases())} if self.fn is None else {"calls": tuple(self._calls())}
        return Problem(
            task_id=name,
            tolerance=None if self.tolerance is None else Tolerance(**self.tolerance.model_dump()),
            language=named_language(self.language, "language") or PYTHON,
            files=self.files or (),
            **given,
            **checks,
        )

    def _of_task(self, name: str, directory: str) -> Problem:
        for field in type(self).model_fields:
            if field not in ("task_id", "task") and getattr(self, field):
                raise InputError("has no effect beside `task`: the directory says all of it", field=field)
        task = read_task(directory)
        return Problem(name, task.steps[0].instruction, task=task)

    def _cases(self) -> Iterator[Case]:
        for position, each in enumerate(self.cases or ()):
            if isinstance(each, list) or (isinstance(each, dict) and "arguments" in each):
                raise InputError(
                    "is a call, but the field `fn`, the name of the function, is missing", field=f"cases[{position}]"
                )
            case = parse_value(CaseRow, each, f"cases[{position}]")
            yield Case(case.stdin, case.stdout)

    def _calls(self) -> Iterator[Call]:
        for position, each in enumerate(self.cases or ()):
            is_text = isinstance(each, dict) and "arguments" in each
            if not is_text and (not isinstance(each, list) or len(each) != 2):
                raise InputError("must be a list of arguments and the value to return", field=f"cases[{position}]")
            call = parse_value(CallRow, each, f"cases[{position}]") if is_text else None
            try:
                if call is None:
                    yield Call.of(each[0], each[1])
                else:
                    yield Call.read(call.arguments, call.expected, name=call.name)
            except InputError as error:
                raise InputError(error.reason, field=f"cases[{position}]{error.field}") from None


BESIDES_CHECKS = ProblemRow.model_fields.keys() - {"tests", "cases", "fn", "check", "answer", "task"}
"""The fields of a row that are not checks."""

_AS_GIVEN = ProblemRow.model_fields.keys() - {"task_id", "cases", "tolerance", "language", "files", "answer", "task"}
_WRITTEN = (
    *("task_id", "prompt", "tests", "fn", "cases", "tolerance", "check", "setup", "entry_point", "reference"),
    *("timeout_seconds", "check_timeout_seconds", "prelude", "starter_code", "packages", "comparison", "language"),
    *("checker", "checker_timeout_seconds", "files", "input_file", "output_file", "memory_bytes", "image", "answer"),
)
_DEFAULTS = {field.name: field.default for field in fields(Problem) if field.default is not MISSING}

# Many sets have a text in a field `task`; in a row of this format it names a directory.
OWN = Format(
    "sandrl's own",
    (("prompt", "task"), ("tests", "cases", "check", "answer", "task")),
    ProblemRow,
    accepts=lambda value: "task" not in value or value.keys() <= ProblemRow.model_fields.keys(),
)


def own_row(problem: Problem) -> dict[str, Any]:
    """A problem as a row of this format; fields that say nothing are left out. That of a task names its directory.

    Raises:
        InputError: If it is a task that has no directory.
    """
    if problem.task is not None:
        if not problem.task.directory:
            message = f"the problem {problem.task_id!r} is a task that was made of a row ({problem.task.format})"
            raise InputError(message, hint="a task can be written only where it was read from a directory; use its row")
        return {"task_id": problem.task_id, "task": problem.task.directory}
    row: dict[str, Any] = {name: getattr(problem, name) for name in _WRITTEN} | {
        "tests": list(problem.tests),
        "cases": [{"stdin": case.stdin, "stdout": case.stdout} for case in problem.cases]
        or [_call_row(call) for call in problem.calls],
        "tolerance": tolerance_row(problem.tolerance),
        "packages": list(problem.packages),
        "comparison": problem.comparison.value,
        "checker": None if problem.checker is None else problem.checker.row,
        "files": file_rows(problem.files) or [],
    }
    if problem.answer is not None:
        row |= {"cases": [], "packages": [], "checker": None}
        row["reference"] = None if problem.reference == boxed(problem.answer) else problem.reference
    return {name: value for name, value in row.items() if value not in (None, [], _DEFAULTS.get(name))}


def tolerance_row(tolerance: Tolerance | None) -> dict[str, Any] | None:
    """A tolerance as the field of a row."""
    if tolerance is None:
        return None
    row = {"absolute": tolerance.absolute, "relative": tolerance.relative}
    return row | ({"words": True} if tolerance.words else {})


# A call as an array, or as an object of texts where JSON would lose something.
def _call_row(call: Call) -> Any:
    values = list(call.values)
    if call.expected is not None and not call.name and _is_json(values):
        return values
    row = {"arguments": call.arguments, "expected": call.expected, "name": call.name}
    return {name: value for name, value in row.items() if value}


# Whether a value is the same once it was written as JSON and read.
def _is_json(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_is_json, value.values()))
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
