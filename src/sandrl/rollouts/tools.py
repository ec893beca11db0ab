"""The tools of an episode, each declared once: its description, its arguments, and its action.

A tool call is a pydantic model. Its docstring and its fields are the schema that an endpoint is offered, and the
signature that TRL reads from the methods of an environment; its validation errors are the answer to a malformed call.
So a policy gets the same tools with the same descriptions wherever it works or is trained. Files that a solution needs
are copied into its code, as statements that write them: it stays one program, which is judged and saved like any other.
"""

from __future__ import annotations

import io
import json
import tokenize
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sandrl.config.words import ToolSet
from sandrl.rollouts.sandbox import LOST, EpisodeSandbox, observation

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
MOST_FILES = 16
MOST_FILE_BYTES = 256 * 1024
"""How much may be copied over, in all."""

_PICK = """import base64, json, os, sys
names, most = json.load(sys.stdin)
picked, room = {}, most
for name in names:
    try:
        if not os.path.realpath(name).startswith(os.path.realpath(".") + os.sep):
            sys.exit(f"{name}: is outside the working directory")
        with open(name, "rb") as file:
            content = file.read(room + 1)
    except OSError as error:
        sys.exit(f"{name}: {error.strerror}")
    room -= len(content)
    if room < 0:
        sys.exit(f"{name}: the files are larger than {most} bytes together")
    picked[os.path.relpath(name)] = base64.b64encode(content).decode()
json.dump(picked, sys.stdout)
"""

_MOST_NAME = 100

TOOL_SCHEMAS = "tool_schemas"
"""Where a run's options keep the tools that were offered."""


class NotCopiedError(Exception):
    """Files cannot be copied over; its text is what a policy is to read about that."""


def copied(sandbox: EpisodeSandbox, names: Sequence[str]) -> Mapping[str, str]:
    """Files of a sandbox: base64 of their contents, by path relative to the working directory."""
    if len(names) > MOST_FILES:
        raise NotCopiedError(f"error: at most {MOST_FILES} files can be copied over, not {len(names)}")
    outcome = sandbox.outcome("python", "-c", _PICK, stdin=json.dumps([[*names], MOST_FILE_BYTES]))
    if outcome is None:
        raise NotCopiedError(LOST)
    try:
        picked = json.loads(outcome.stdout) if outcome.exit_code == 0 else None
    except (ValueError, RecursionError):
        picked = None
    if not isinstance(picked, dict):
        raise NotCopiedError(f"error: not submitted: {observation(outcome)}")
    return {str(name): str(content) for name, content in picked.items()}


def with_files(code: str, files: Mapping[str, str]) -> str:
    """Code that first writes files, base64 by relative path, next to it.

    What must come first in a program stays first; what begins as no Python does is returned as it is.
    """
    first = _first_line(code)
    if first is None:
        return code
    lines = code.split("\n")
    writing = [_write_statement(name, content) for name, content in files.items()]
    writing.append('__import__("sys").path.insert(0, __import__("os").getcwd())')
    return "\n".join([*lines[:first], *writing, *lines[first:]])


def _first_line(code: str) -> int | None:
    first, statement = 0, []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type in (tokenize.COMMENT, tokenize.NL):
                continue
            statement.append(token)
            if token.type != tokenize.NEWLINE:
                continue
            is_text = not first and [each.type for each in statement[:-1]] == [tokenize.STRING]
            is_future = [each.string for each in statement[:2]] == ["from", "__future__"]
            if not (is_text or is_future):
                break
            first, statement = token.end[0], []
    except (tokenize.TokenError, SyntaxError):
        return None
    return first


def _write_statement(name: str, content: str) -> str:
    path = f'__import__("pathlib").Path({name!r})'
    data = f'__import__("base64").b64decode({content!r})'
    return f"{path}.parent.mkdir(parents=True, exist_ok=True); {path}.write_bytes({data})"


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
