"""Calls of tools, each tool declared once: its description, its arguments, and its action.

A tool call is a pydantic model. Its docstring and its fields are the schema that an endpoint is offered, and the
signature that TRL reads from the methods of an environment; its validation errors are the answer to a malformed call.
So a policy gets the same tools with the same descriptions wherever it works or is trained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

_MOST_NAME = 100


# Halves of characters, which JSON can say, as Python writes them: pydantic takes whole ones only.
def _encodable(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


# A list that is left out, or written as text, as templates without types do.
def _list(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    return [] if value is None else value


# A number that is written as text.
def _number(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value


Text: TypeAlias = Annotated[str, BeforeValidator(_encodable)]
Texts: TypeAlias = Annotated[list[Text], BeforeValidator(_list)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_number)]


class Call(BaseModel):
    """A call of a tool."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_Call = TypeVar("_Call", bound=Call)


def tool_schemas(tools: Mapping[str, type[Call]]) -> tuple[dict[str, Any], ...]:
    """What a model is told of tools: JSON schemas of functions."""
    return tuple(_schema(name, tool) for name, tool in tools.items())


def _schema(name: str, tool: type[Call]) -> dict[str, Any]:
    whole = tool.model_json_schema()
    properties = {
        field: {key: value for key, value in told.items() if key not in ("title", "default")}
        for field, told in whole["properties"].items()
    }
    required = {"required": whole["required"]} if "required" in whole else {}
    parameters = {"type": "object", "properties": properties, **required}
    return {"name": name, "description": whole["description"], "parameters": parameters}


def parse_call(tools: Mapping[str, type[_Call]], name: str, arguments: str | Mapping[str, object]) -> _Call | str:
    """The call, or what a model is to read about one that is none."""
    tool = tools.get(name)
    if tool is None:
        what = f"there is no tool {name[:_MOST_NAME]!r}" if name else "the call names no tool"
        return f"error: {what}; the tools are {', '.join(tools)}"
    try:
        return tool.model_validate(_object(arguments) if isinstance(arguments, str) else arguments)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        wrong = f"{'.'.join(map(str, first['loc']))[:_MOST_NAME]}: {first['msg']}"
    except RecursionError:
        wrong = "nested too deeply"
    except ValueError as error:
        wrong = f"no JSON object: {error}"
    takes = ", ".join(tool.model_fields) or "none"
    return f"error: the arguments of {name} are wrong: {wrong}; it takes {takes}"


def _object(written: str) -> dict[str, object]:
    value = json.loads(written or "{}")
    # Some models write their arguments as JSON in JSON.
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__}")
    return value
