"""The tools of an episode on a problem with checks: code to execute and submit, a shell, files.

Files that a solution needs are copied into its code, as statements that write them: it stays one program, which is
judged and saved like any other.
"""

from __future__ import annotations

import io
import json
import tokenize
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from sandrl.config.words import ToolSet
from sandrl.rollouts.calls import Call, Text, Texts
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

HAS_MIXED_TOOLS = "has_mixed_tools"
"""Where they keep whether tasks were offered others, which are not kept."""


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


class Tool(Call):
    """A call of a tool that works in the sandbox of an episode.

    Its program gets `path`, if it takes one, as an argument, and what else it takes, code or content, as standard
    input.
    """

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
