"""The tools of tasks: how they are declared, how long output is cut, and how files are edited."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sandrl.problems.tasks.task import Phase, TaskStep
from sandrl.rollouts.calls import parse_call, tool_schemas
from sandrl.rollouts.task_tools import TASK_TOOLS
from sandrl.rollouts.toolbox import TaskToolbox
from sandrl.sandboxes import CommandOutcome


class Machine:
    """Runs what tools run, our own words, in a directory of this machine; it has no terminal."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def run(self, command: Sequence[str], *, stdin: bytes = b"", output_bytes: int, **_: Any) -> CommandOutcome:
        done = subprocess.run(list(command), input=stdin, capture_output=True, cwd=self.directory, check=False)
        return CommandOutcome("box", done.returncode, done.stdout[:output_bytes], done.stderr)


@pytest.fixture
def toolbox(tmp_path: Path) -> TaskToolbox:
    toolbox = TaskToolbox(100)
    machine: Any = Machine(tmp_path)
    toolbox.begin(machine, TaskStep("Do it.", agent=Phase(timeout_seconds=60.0)))
    return toolbox


def edit(toolbox: TaskToolbox, **arguments: str) -> str:
    return toolbox.call("edit_file", arguments)


def test_tools_are_described_by_their_own_words() -> None:
    schemas = {schema["name"]: schema for schema in tool_schemas(TASK_TOOLS)}
    assert list(schemas) == ["bash", "terminal", "write_file", "edit_file", "submit"]
    assert all(schema["description"] for schema in schemas.values())
    bash = schemas["bash"]["parameters"]
    assert bash["required"] == ["command"]
    assert bash["properties"]["timeout_seconds"] == {
        "type": "number",
        "description": "How long to wait for the command, in seconds; 60 by default.",
    }
    assert schemas["submit"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("seconds", ['"5"', "5", "5.0"])
def test_numbers_may_be_written_as_text(seconds: str) -> None:
    call = parse_call(TASK_TOOLS, "bash", f'{{"command": "ls", "timeout_seconds": {seconds}}}')
    assert call == TASK_TOOLS["bash"](command="ls", timeout_seconds=5.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("seconds", ['"soon"', "NaN", "Infinity", "[]"])
def test_numbers_that_are_none_are_told(seconds: str) -> None:
    told = parse_call(TASK_TOOLS, "bash", f'{{"command": "ls", "timeout_seconds": {seconds}}}')
    assert isinstance(told, str)
    assert told.startswith("error: the arguments of bash are wrong: timeout_seconds: ")


def test_a_tool_without_arguments_says_so() -> None:
    assert str(parse_call(TASK_TOOLS, "submit", '{"answer": 1}')).endswith("it takes none")


def test_files_are_written_with_their_directories(toolbox: TaskToolbox, tmp_path: Path) -> None:
    given: Mapping[str, str] = {"path": "a b/-c/file", "content": "é\n"}
    assert toolbox.call("write_file", given) == "Written."
    assert (tmp_path / "a b/-c/file").read_text() == "é\n"
    assert toolbox.call("write_file", {"path": "a b", "content": ""}).startswith("error: ")
    assert toolbox.call("write_file", {"path": "-n", "content": "x"}) == "Written."


def test_a_text_is_replaced_where_it_is_once(toolbox: TaskToolbox, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one\ntwo\ntwo\n")
    file.chmod(0o755)
    assert edit(toolbox, path="file", old="one\n", new="") == "Edited."
    assert edit(toolbox, path="file", old="two", new="2") == "error: not edited: `old` is in the file 2 times"
    assert edit(toolbox, path="file", old="three", new="3") == "error: not edited: `old` is in the file 0 times"
    assert edit(toolbox, path="file", old="", new="3") == "error: not edited: `old` is empty"
    assert edit(toolbox, path="none", old="a", new="b").startswith("error: ")
    assert file.read_text() == "two\ntwo\n"
    assert file.stat().st_mode & 0o777 == 0o755
    assert toolbox.calls == 5


def test_a_large_file_is_not_edited(toolbox: TaskToolbox, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(5 << 20)
    assert edit(toolbox, path="large", old="a", new="b") == "error: large: is larger than 4,194,304 bytes"
