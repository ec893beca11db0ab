"""The tools of an episode as an endpoint wants them: schemas to offer, and text for every call a model makes.

The design decision: whatever is wrong with a call is an observation: a tool there is not, arguments that are no JSON,
one that is missing or of another type. What tools are called and what a model is told of them is read off the methods
that trainers offer, too, so that a policy meets the same tools wherever it is trained.
"""

from __future__ import annotations

import inspect
import io
import json
import tokenize
from collections.abc import Callable, Mapping
from typing import Any

from sandrl.rollouts.kinds import ToolSet
from sandrl.rollouts.messages import ToolCall
from sandrl.rollouts.tools import AllTools, CodeTools
from sandrl.rollouts.workbench import Workbench, Workplace

MOST_FILES = 16
MOST_FILE_BYTES = 256 * 1024
"""How much `submit_solution` may copy over, in all."""

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
_TYPES: Mapping[object, Mapping[str, Any]] = {
    "str": {"type": "string"},
    "list[str] | None": {"type": "array", "items": {"type": "string"}},
}


class Toolbox:
    """The tools of one episode.

    Args:
        workplace: Where its sandbox comes from.
        task_id: The problem it is about.
        tool_set: What there is.

    Attributes:
        solution: The code that was submitted, the files it needs included; None before.
    """

    def __init__(self, workplace: Workplace, task_id: str, tool_set: ToolSet = ToolSet.CODE) -> None:
        self._tools = _KINDS[tool_set](workplace)
        self._tools.reset(task_id=task_id)
        self._methods: dict[str, Callable[..., str]] = {name: getattr(self._tools, name) for name in _names(tool_set)}
        self._methods["submit_solution"] = self.submit_solution
        self.solution: str | None = None

    @property
    def workbench(self) -> Workbench:
        """The sandbox of the episode."""
        return self._tools.workbench

    def call(self, call: ToolCall) -> str:
        """What a model is to read about a call it made, whatever is wrong with it."""
        method = self._methods.get(call.name)
        if method is None:
            there = ", ".join(self._methods)
            what = f"there is no tool {call.name[:100]!r}" if call.name else "the call names no tool"
            return f"error: {what}; the tools are {there}"
        arguments = _parsed(call.arguments)
        if isinstance(arguments, str):
            return f"error: the arguments of {call.name} are {arguments}"
        wrong = _mismatch(function_schema(method), arguments)
        return f"error: {call.name} {wrong}" if wrong else method(**arguments)

    def submit_solution(self, code: str, files: list[str] | None = None) -> str:
        """Submit the solution of the task, which ends the episode. It is judged in a fresh sandbox.

        Args:
            code: The Python code of the solution, complete.
            files: Paths of files of the sandbox that the code needs; they are copied over.

        Returns:
            Whether it was taken.
        """
        if not code.strip():
            return "error: the code is empty"
        if not files:
            self.solution = code
            return "Submitted."
        if len(files) > MOST_FILES:
            return f"error: at most {MOST_FILES} files can be copied over, not {len(files)}"
        outcome = self.workbench.outcome("python", "-c", _PICK, stdin=json.dumps([files, MOST_FILE_BYTES]))
        if outcome is None:
            return "error: the sandbox was lost, with its files"
        picked = _parsed(outcome.stdout.decode("utf-8", "replace")) if outcome.exit_code == 0 else ""
        if isinstance(picked, str):
            return f"error: not submitted: {self.workbench.told(outcome)}"
        self.solution = with_files(code, {name: str(content) for name, content in picked.items()})
        return "Submitted."


_KINDS: Mapping[ToolSet, type[CodeTools]] = {ToolSet.CODE: CodeTools, ToolSet.ALL: AllTools}


def _names(tool_set: ToolSet) -> tuple[str, ...]:
    kinds = reversed(_KINDS[tool_set].__mro__)
    names = [name for kind in kinds if kind is not object for name in vars(kind)]
    return tuple(name for name in names if not name.startswith("_") and name != "reset")


def tool_schemas(tool_set: ToolSet) -> tuple[dict[str, Any], ...]:
    """What a model is told of the tools: JSON schemas of functions."""
    kind = _KINDS[tool_set]
    own = {"submit_solution": Toolbox.submit_solution}
    return tuple(function_schema(own.get(name) or getattr(kind, name)) for name in _names(tool_set))


def function_schema(function: Callable[..., str]) -> dict[str, Any]:
    """The JSON schema of a function: from its name, its signature and its docstring."""
    lines = (inspect.getdoc(function) or "").splitlines()
    told = dict(line.strip().split(": ", 1) for line in lines if line.startswith("    ") and ": " in line)
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    return {
        "name": function.__name__,
        "description": lines[0],
        "parameters": {
            "type": "object",
            "properties": {
                each.name: {**_TYPES[each.annotation], "description": told[each.name]} for each in parameters
            },
            "required": [each.name for each in parameters if each.default is each.empty],
        },
    }


def _parsed(text: str) -> dict[str, Any] | str:
    """The object that a text of JSON is, or what it is instead."""
    try:
        value = json.loads(text or "{}")
        # Some models write their arguments as JSON in JSON.
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        return f"no JSON: {error}"
    except RecursionError:
        return "nested too deeply"
    return value if isinstance(value, dict) else "no JSON object"


def _mismatch(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """In which way arguments are not what a function takes; empty if they are."""
    properties = schema["parameters"]["properties"]
    needed = ", ".join(f"`{name}`" for name in properties)
    for name in schema["parameters"]["required"]:
        if name not in arguments:
            return f"needs the argument `{name}`; its arguments are {needed}"
    for name, value in arguments.items():
        if name not in properties:
            return f"has no argument `{name[:100]}`; its arguments are {needed}"
        is_text = isinstance(value, str)
        if properties[name]["type"] == "string" and not is_text:
            return f"takes a text as `{name}`"
        if properties[name]["type"] == "array" and not (value is None or _is_texts(value)):
            return f"takes a list of texts as `{name}`"
    return ""


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def with_files(code: str, files: Mapping[str, str]) -> str:
    """Code that first writes files next to it, and can import those that are modules.

    Args:
        code: The code.
        files: Base64 of their contents, by relative path.

    Returns:
        The code with statements for that after what must come first in a program; as it is where it begins as no
        Python does.
    """
    first = _first_line(code)
    if first is None:
        return code
    lines = code.split("\n")
    writing = [_write_statement(name, content) for name, content in files.items()]
    writing.append('__import__("sys").path.insert(0, __import__("os").getcwd())')
    return "\n".join([*lines[:first], *writing, *lines[first:]])


def _first_line(code: str) -> int | None:
    """After how many lines of a program other statements may come: those of its docstring and of `__future__`.

    By its tokens: parsing hostile code here can take all memory, and in threads it trips over a fault of CPython 3.11.
    """
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


TOOLS_INSTRUCTION = (
    "Solve the task in Python. Try your code with the tool execute_code, as often as you need to. When it is right,"
    " submit it with the tool submit_solution: only what is submitted counts, with the files you name."
)
"""The system message of an episode with tools."""
