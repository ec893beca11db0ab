"""The tools of an episode, each declared once: its description, its arguments, and its action.

A tool call is a pydantic model. Its docstring and its fields are the schema that an endpoint is offered, and the
signature that TRL reads from the methods of an environment; its validation errors are the answer to a malformed call.
So a policy gets the same tools with the same descriptions wherever it works or is trained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sandrl.config.words import ToolSet
from sandrl.rollouts.attachments import NotCopiedError, copied, with_files
from sandrl.rollouts.sandbox import EpisodeSandbox

# Programs that the tools run; what they work on comes through standard input, and only names through arguments.
_READ = """import sys
try:
    sys.stdout.write(open(sys.argv[1], encoding="utf-8", errors="replace").read())
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}")
"""
_WRITE = """import os, sys
try:
    os.makedirs(os.path.dirname(sys.argv[1]) or ".", exist_ok=True)
    with open(sys.argv[1], "wb") as file:
        file.write(sys.stdin.buffer.read())
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error.strerror}")
"""
_MOST_NAME = 100

TOOL_SCHEMAS = "tool_schemas"
"""Where a run's options keep the tools that were offered."""


# Halves of characters, which JSON can say, as Python writes them: pydantic takes whole ones only.
def _encodable(value: object) -> object:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


# A list that is left out, or written as text, as templates without types do.
def _list(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    return [] if value is None else value


Text: TypeAlias = Annotated[str, BeforeValidator(_encodable)]
Texts: TypeAlias = Annotated[list[Text], BeforeValidator(_list)]


class Tool(BaseModel):
    """A call of a tool.

    Its program gets `path`, if it takes one, as an argument, and what else it takes, code or content, as standard
    input.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    program: ClassVar[tuple[str, ...]] = ()

    def use(self, sandbox: EpisodeSandbox) -> str:
        given = self.model_dump()
        paths = [given.pop("path")] if "path" in given else []
        return sandbox.run(*self.program, *paths, stdin="".join(given.values()))


class ExecuteCode(Tool):
    """Run a Python program and return what it prints."""

    program = ("python", "-")

    code: Text = Field(description="The program.")


class SubmitSolution(Tool):
    """Submit the solution of the task, which ends the episode. Only the first one counts; a fresh sandbox judges it."""

    code: Text = Field(description="The Python code of the solution, complete.")
    files: Texts = Field(
        default_factory=list, description="Paths of files of the sandbox that the code needs; they are copied over."
    )

    def solution(self, sandbox: EpisodeSandbox) -> str:
        if not self.code.strip():
            raise NotCopiedError("error: not submitted: the code is empty")
        return with_files(self.code, copied(sandbox, self.files)) if self.files else self.code


class Bash(Tool):
    """Run a shell command and return what it prints, and its exit code if that is not 0."""

    program = ("sh", "-s")

    command: Text = Field(description="The command.")


class ReadFile(Tool):
    """Read a text file."""

    program = ("python", "-c", _READ)

    path: Text = Field(description="Where it is.")


class WriteFile(Tool):
    """Write a text file, with the directories it needs."""

    program = ("python", "-c", _WRITE)

    path: Text = Field(description="Where.")
    content: Text = Field(description="Its text.")


_CODE: Mapping[str, type[Tool]] = {"execute_code": ExecuteCode, "submit_solution": SubmitSolution}
TOOLS: Mapping[ToolSet, Mapping[str, type[Tool]]] = {
    ToolSet.CODE: _CODE,
    ToolSet.ALL: {**_CODE, "bash": Bash, "read_file": ReadFile, "write_file": WriteFile},
}
"""The tools of each set, by name."""


def tool_schemas(tool_set: ToolSet) -> tuple[dict[str, Any], ...]:
    """What a model is told of the tools: JSON schemas of functions."""
    return tuple(_schema(name, tool) for name, tool in TOOLS[tool_set].items())


def _schema(name: str, tool: type[Tool]) -> dict[str, Any]:
    whole = tool.model_json_schema()
    properties = {
        field: {key: value for key, value in told.items() if key != "title"}
        for field, told in whole["properties"].items()
    }
    return {
        "name": name,
        "description": whole["description"],
        "parameters": {"type": "object", "properties": properties, "required": whole["required"]},
    }


def parse_call(tool_set: ToolSet, name: str, arguments: str | Mapping[str, object]) -> Tool | str:
    tools = TOOLS[tool_set]
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
    return f"error: the arguments of {name} are wrong: {wrong}; it takes {', '.join(tool.model_fields)}"


def _object(written: str) -> dict[str, object]:
    value = json.loads(written or "{}")
    # Some models write their arguments as JSON in JSON.
    value = json.loads(value) if isinstance(value, str) else value
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__}")
    return value
