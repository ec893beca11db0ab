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
from sandrl.problems.formats.languages import named_language
from sandrl.problems.formats.messages import Prompt
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.languages import PYTHON
from sandrl.problems.problem import Case, Problem, Tolerance
from sandrl.problems.problem_files import file_rows


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
    prompt: Prompt
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

    def to_problem(self, name: str) -> Problem:
        tolerance = self.tolerance
        return Problem(
            task_id=name,
            prompt=self.prompt,
            tests=tuple(self.tests or ()),
            cases=() if self.fn is not None else tuple(self._cases()),
            fn=self.fn,
            calls=tuple(self._calls()) if self.fn is not None else (),
            tolerance=None if tolerance is None else Tolerance(**tolerance.model_dump()),
            check=self.check,
            setup=self.setup or "",
            entry_point=self.entry_point,
            reference=self.reference,
            timeout_seconds=self.timeout_seconds,
            check_timeout_seconds=self.check_timeout_seconds,
            prelude=self.prelude,
            starter_code=self.starter_code or "",
            packages=tuple(self.packages or ()),
            language=named_language(self.language, "language") or PYTHON,
            comparison=self.comparison or Comparison.PLAIN,
            checker=self.checker,
            checker_timeout_seconds=self.checker_timeout_seconds,
            files=self.files or (),
            input_file=self.input_file,
            output_file=self.output_file,
            memory_bytes=self.memory_bytes,
        )

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


BESIDES_CHECKS = ProblemRow.model_fields.keys() - {"tests", "cases", "fn", "check"}
"""The fields of a row that are not checks."""

OWN = Format("sandrl's own", (("prompt",), ("tests", "cases", "check")), ProblemRow)


def own_row(problem: Problem) -> dict[str, Any]:
    """A problem as a row of this format; fields that say nothing are left out."""
    row: dict[str, Any] = {
        "task_id": problem.task_id,
        "prompt": problem.prompt,
        "tests": list(problem.tests),
        "fn": problem.fn,
        "cases": [{"stdin": case.stdin, "stdout": case.stdout} for case in problem.cases]
        or [_call_row(call) for call in problem.calls],
        "tolerance": tolerance_row(problem.tolerance),
        "check": problem.check,
        "setup": problem.setup,
        "entry_point": problem.entry_point,
        "reference": problem.reference,
        "timeout_seconds": problem.timeout_seconds,
        "check_timeout_seconds": problem.check_timeout_seconds,
        "prelude": problem.prelude,
        "starter_code": problem.starter_code,
        "packages": list(problem.packages),
        "comparison": None if problem.comparison is Comparison.PLAIN else problem.comparison.value,
        "language": problem.language,
        "checker": None if problem.checker is None else problem.checker.row,
        "checker_timeout_seconds": problem.checker_timeout_seconds,
        "files": file_rows(problem.files) or [],
        "input_file": problem.input_file,
        "output_file": problem.output_file,
        "memory_bytes": problem.memory_bytes,
    }
    return {name: value for name, value in row.items() if value not in (None, [], _DEFAULTS.get(name))}


_DEFAULTS = {field.name: field.default for field in fields(Problem) if field.default is not MISSING}


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
