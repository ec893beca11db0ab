"""Reads typed rows: an error of pydantic becomes one line that names the file, the line and the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints, ValidationError

from sandrl.bounds import seconds_problem
from sandrl.errors import InputError
from sandrl.jsonl import Row, type_name
from sandrl.problems.preludes import prelude_of

RowModel = TypeVar("RowModel", bound="InputRow")


class InputRow(BaseModel):
    """A row of a user's file: its types are exact, and fields it does not know are left alone."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


def _identifier(value: object) -> object:
    # A table whose column has nulls may have its integers as floats.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _positive(value: float) -> float:
    if problem := seconds_problem(value):
        raise ValueError(problem)
    return value


def _margin(value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError("must be a finite number, 0 or more")
    return value


# MBPP and many private sets number their rows.
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=1000), BeforeValidator(_identifier)]
Seconds = Annotated[float, AfterValidator(_positive)]
Prelude = Annotated[str, BeforeValidator(lambda value: "" if value is None else value), AfterValidator(prelude_of)]
Margin = Annotated[float, AfterValidator(_margin)]


def plain(value: Any) -> Any:
    """A value that Python code gives, with lists and numbers for arrays and numbers of NumPy, at any depth."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def check_text(field: str, value: object, *, is_optional: bool = False) -> None:
    """Refuses what is no string, nor None if that is allowed, where Python code gives a value that files have too."""
    if not (isinstance(value, str) or (is_optional and value is None)):
        raise InputError(f"must be a string{' or None' * is_optional}, not {_of(value)}", field=field)


def as_tuple(field: str, values: object, each: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise InputError(f"must be a list of {each}, not {_of(values)}", field=field)
    return tuple(values)


def _of(value: object) -> str:
    return "None" if value is None else f"{value!r:.40} of the type {type(value).__name__}"


def parse_row(model: type[RowModel], row: Row, path: str | Path) -> RowModel:
    """Checks the types of a row; the `InputError` names the first field that is missing or wrong."""
    try:
        return parse_value(model, row.value)
    except InputError as error:
        raise error.at(path, row.line, field=error.field) from error.__cause__


def parse_value(model: type[RowModel], value: object, place: str = "") -> RowModel:
    """Checks the types of an object in a row, or of the whole row; `place` is the field that it is in."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        # A union reports each of its members; the path up to there is what the user wrote.
        field = place + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise InputError(reason_of(first), field=field.lstrip(".") or None) from error


def reason_of(error: dict[str, Any]) -> str:
    """What an error of pydantic says, in the words of all messages."""
    expected = {
        "missing": "is missing",
        "string_type": "must be a string",
        "list_type": "must be an array",
        "float_type": "must be a number",
        "float_parsing": "must be a number",
        "int_parsing": "must be a whole number",
        "int_from_float": "must be a whole number",
        "bool_parsing": "must be true or false",
        "model_type": "must be an object",
        "dict_type": "must be an object",
        "literal_error": f"must be {error.get('ctx', {}).get('expected')}",
    }.get(error["type"])
    if error["type"].endswith("_parsing") or error["type"] == "int_from_float":
        return f"{expected}, not {error['input']!r:.40}"
    if expected is not None and error["type"] not in ("literal_error", "missing"):
        return f"{expected}, not {type_name(error['input'])}"
    if error["type"] == "string_unicode":
        return "holds half of a surrogate pair, which is not valid text"
    if error["type"] == "string_too_short":
        return "must not be empty"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    message = str(error["msg"])
    return expected or message[:1].lower() + message[1:]
