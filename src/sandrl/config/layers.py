"""Builds a configuration from layers: defaults, then a file or a saved run, then the command line.

A layer is a mapping with only the values that were given, so a layer overrides exactly these values. The result has a
value for every field. An error names the field; the command line shows its flag instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from sandrl.config.fields import near_key
from sandrl.config.model import Config
from sandrl.errors import UsageError

ConfigT = TypeVar("ConfigT", bound=Config)

_NAME = re.compile(r"[a-z_]+")


def resolve(model: type[ConfigT], *layers: Mapping[str, Any]) -> ConfigT:
    """Puts the layers of a configuration together: a later one wins, and tables are put together key by key.

    Raises:
        UsageError: If a key is unknown or a value is impossible; its `fields` name the fields.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            before = merged.get(name)
            if isinstance(value, dict) and isinstance(before, dict):
                merged[name] = {**before, **value}
            else:
                merged[name] = value
    try:
        return model.model_validate(merged)
    except ValidationError as error:
        message, fields = _first_problem(model, error)
        hint = "`print_config` prints all keys and their values"
        raise UsageError(message, hint=hint, fields=(*fields, "print_config")) from error


def parse_assignments(field: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Splits `key=value` words; the values stay text until their types are known.

    Raises:
        UsageError: If a word has no `=`.
    """
    fields: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise UsageError(f"{field}: {assignment!r} is not key=value", fields=(field,))
        if key.strip() in fields:
            raise UsageError(f"{field}: {key.strip()} is given more than once", fields=(field,))
        fields[key.strip()] = value
    return fields


def _first_problem(model: type[Config], error: ValidationError) -> tuple[str, tuple[str, ...]]:
    problem = error.errors(include_url=False)[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        return f"there is no option {name!r}{near_key(model, name)}", ()
    message = problem["msg"].removeprefix("Value error, ")
    if not name:
        # A rule over several fields, in our own words, which begin with one of them.
        known = tuple(word for word in dict.fromkeys(_NAME.findall(message)) if word in model.model_fields)
        return message, tuple(word for word in known if message.startswith(word) or "_" in word)
    key = ".".join(str(part) for part in problem["loc"] if not str(part).startswith("function-"))
    if problem["type"] == "value_error":
        return f"{key} {message}", (name,)
    return f"{key}: {message}, not {problem['input']!r}", (name,)
