"""Maps the fields of rows in an unknown format: `--map prompt=question,tests=asserts` assigns them.

A mapped row is a row of sandrl's own format. A field may be taken from within another one, by a path with dots, and a
text of JSON on the way is read; `field:=value` gives every row the same value. Tests are accepted in every shape that a
format has, so that one option replaces many formats. A row may lack an optional field; a path that no row has is a
typing error, and is reported as an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from sandrl.errors import InputError, UsageError
from sandrl.jsonl import Row, type_name
from sandrl.problems.completion_formats.format import TASK_FIELDS
from sandrl.problems.fields import InputRow
from sandrl.problems.formats.inputs_outputs import Pair, checks_of_pairs, function_name, pairs_of
from sandrl.problems.formats.own import ProblemRow, tolerance_row
from sandrl.problems.formats.texts import json_value

_CHECKS = ("tests", "cases", "check")
_LISTS = ("tests", "packages")
_EXAMPLE = "for example prompt=question,tests=info.asserts; fn:=two_sum gives all rows the same value"
_BEGIN = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class PathMap:
    """Which fields of a row are those of sandrl's own format.

    `missing` has the paths to optional fields that no row has had so far, each with the error of the first row.
    """

    paths: Mapping[str, tuple[str, ...]]
    constants: Mapping[str, Any] = field(default_factory=dict)
    missing: dict[str, InputError | None] = field(default_factory=dict)

    model: ClassVar[type[InputRow]]
    option: ClassVar[str]
    noun: ClassVar[str]
    example: ClassVar[str]

    @classmethod
    def of(cls, pairs: Sequence[str]) -> Self | None:
        """Makes one of `field=path` and `field:=value` pairs; None of none. `UsageError` for a pair that is neither."""
        paths: dict[str, tuple[str, ...]] = {}
        constants: dict[str, Any] = {}
        option = cls.option
        for pair in pairs:
            name, equals, right = (part.strip() for part in pair.partition("="))
            is_constant, name = name.endswith(":"), name.removesuffix(":").rstrip()
            if not equals or not right or (not is_constant and "" in right.split(".")):
                reason = f"{option}: {pair!r} is not FIELD=PATH or FIELD:=VALUE"
                raise UsageError(reason, hint=cls.example, fields=(option,))
            if name not in cls.model.model_fields:
                known = ", ".join(cls.model.model_fields)
                raise UsageError(
                    f"{option}: {cls.noun} has no field {name!r}", hint=f"it has {known}", fields=(option,)
                )
            if name in paths or name in constants:
                raise UsageError(f"{option}: {name!r} is given twice", fields=(option,))
            if is_constant:
                constants[name] = _constant(right)
            else:
                paths[name] = tuple(right.split("."))
        return cls(paths, constants, dict.fromkeys(paths)) if paths or constants else None

    def _found(self, row: Row) -> tuple[dict[str, Any], dict[str, InputError]]:
        values: dict[str, Any] = dict(self.constants)
        absent: dict[str, InputError] = {}
        for name, path in self.paths.items():
            try:
                found = _at(row.value, path)
            except _MissingError as error:
                absent[name] = error.args[0]
                continue
            self.missing.pop(name, None)
            if found is not None:
                values[name] = found
        return values, absent

    def _note_missing(self, name: str, reason: InputError) -> None:
        if name in self.missing and self.missing[name] is None:
            self.missing[name] = reason

    def refuse_missing(self, source: str | Path) -> None:
        """Refuses a path that no row has had."""
        for error in self.missing.values():
            if error is not None:
                reason = error.reason.replace("is missing", "is missing in every row", 1)
                reason = reason.replace("there are", "the first has", 1)
                raise InputError(reason, path=source, field=error.field)

    def place_of(self, place: str | None) -> str | None:
        """Where a field of a mapped row stands in the row as it was."""
        begin = _BEGIN.match(place or "")
        if place is None or begin is None or begin[0] not in self.paths:
            return place
        return self._path(begin[0]) + place[begin.end() :]

    def _path(self, name: str) -> str:
        return ".".join(self.paths.get(name, (name,)))


class CompletionFields(InputRow):
    """The fields that a mapped row of completions may have."""

    task_id: Any
    completion: Any = None
    code: Any = None
    id: Any = None


class CompletionMap(PathMap):
    """The same for rows of completions; `completion` and `code` may be texts, lists of samples or messages."""

    __slots__ = ()
    model = CompletionFields
    option = "completion_fields"
    noun = "a completion"
    example = "for example task_id=meta.task,completion=choices.0.text"

    def apply(self, row: Row) -> Row:
        """A row with the fields that are meant, and those that name its problem."""
        values, absent = self._found(row)
        for name, reason in absent.items():
            if name != "id":
                raise reason
            self._note_missing(name, reason)
        kept = {name: row.value[name] for name in (*TASK_FIELDS, "completion", "code") if name in row.value}
        if values.keys() & {"completion", "code"}:
            kept = {name: value for name, value in kept.items() if name not in ("completion", "code")}
        return Row(row.line, kept | values, row.path)


class FieldMap(PathMap):
    """The same for rows of problems."""

    __slots__ = ()
    model = ProblemRow
    option = "fields"
    noun = "a problem"
    example = _EXAMPLE

    def apply(self, row: Row) -> Row:
        """A row with the fields that are meant, and the others as they were."""
        taken = {path[0] for path in self.paths.values()} | self.paths.keys()
        values, absent = self._found(row)
        value = {name: each for name, each in row.value.items() if name not in taken} | values
        for name, reason in absent.items():
            if name == "prompt" or (name in _CHECKS and not any(each in value for each in _CHECKS)):
                raise reason
            self._note_missing(name, reason)
        if "prompt" in self.paths and "prompt" not in value:
            raise InputError("is null; a problem needs a prompt", field=self._path("prompt"))
        return Row(row.line, self._as_own(value), row.path)

    def _as_own(self, value: dict[str, Any]) -> dict[str, Any]:
        for name in _LISTS:
            if name in self.paths and isinstance(each := value.get(name), str):
                is_array = each.lstrip()[:1] == "["
                value[name] = json_value(each, self._path(name)) if is_array else [each]
        if "tests" in self.paths:
            self._refuse_calls(value.get("tests"))
        if "tolerance" in self.paths and isinstance(value.get("tolerance"), str):
            value["tolerance"] = json_value(value["tolerance"], self._path("tolerance"))
        if "cases" not in self.paths or "cases" not in value:
            return value
        checks = self._checks(value, self._path("cases"))
        # A run of a program has no function, whatever others in the same file have.
        value.pop("fn", None)
        if "calls" in checks:
            return value | {"fn": checks["fn"], "cases": [list(call.values) for call in checks["calls"]]}
        value["cases"] = [{"stdin": case.stdin, "stdout": case.stdout} for case in checks["cases"]]
        if (tolerance := checks["tolerance"]) is not None:
            value.setdefault("tolerance", tolerance_row(tolerance))
        return value

    def _refuse_calls(self, tests: Any) -> None:
        for position, each in enumerate(tests if isinstance(tests, list) else ()):
            if not isinstance(each, str):
                raise InputError(
                    f"must be a string, not {type_name(each)}",
                    field=f"{self._path('tests')}[{position}]",
                    hint="runs of a program and calls of a function belong in `cases`: set `fields` to"
                    " cases=test_cases,fn=function_name",
                    fields=("fields",),
                )

    def _checks(self, value: Mapping[str, Any], path: str) -> dict[str, Any]:
        function = function_name(value.get("fn"), self._path("fn"))
        pairs = pairs_of(value["cases"], path, function=function)
        for pair in pairs:
            if not pair.function and _is_call(pair):
                raise InputError(
                    "has the values of a call, but the function is not named",
                    field=pair.fields[0],
                    hint="name it with `fields`, for example fn=function_name, or fn:=two_sum for all rows",
                    fields=("fields",),
                )
        code = "\n".join(each for name in _CODE if isinstance(each := value.get(name), str))
        return checks_of_pairs(pairs, path, code=code)


_CODE = ("starter_code", "reference", "prompt")
"""The fields that show whether a function is a method of `Solution`."""


# Its argument is the error of a field that is missing.
class _MissingError(Exception):
    pass


def _constant(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for depth, step in enumerate(path):
        place = ".".join(path[: depth + 1])
        if depth:
            value = json_value(value, ".".join(path[:depth]))
        if isinstance(value, list) and step.isdecimal() and step.isascii() and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            fields = ", ".join(f"`{name}`" for name in list(value)[:12]) if isinstance(value, Mapping) else ""
            raise _MissingError(InputError("is missing" + (f"; there are {fields}" if fields else ""), field=place))
    return value


# Whether a test cannot be a run of a program: what that reads and prints is text, or lines of it.
def _is_call(pair: Pair) -> bool:
    return any(
        isinstance(each, Mapping | tuple | bool | None)
        or (isinstance(each, list) and not all(isinstance(line, str) for line in each))
        for each in (pair.given, pair.expected)
    )
