"""What a model is told of its tools, and how files travel with a solution."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.config.words import ToolSet
from sandrl.rollouts.calls import parse_call, tool_schemas
from sandrl.rollouts.tools import TOOLS, ExecuteCode, SubmitSolution, with_files


def test_the_tools_are_described_by_their_own_words() -> None:
    schemas = {schema["name"]: schema for schema in tool_schemas(TOOLS[ToolSet.ALL])}
    assert list(schemas) == ["execute_code", "submit_solution", "bash", "read_file", "write_file"]
    assert [schema["name"] for schema in tool_schemas(TOOLS[ToolSet.CODE])] == ["execute_code", "submit_solution"]
    assert schemas["write_file"]["parameters"] == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where."},
            "content": {"type": "string", "description": "Its text."},
        },
        "required": ["path", "content"],
    }
    submit = schemas["submit_solution"]["parameters"]
    assert submit["required"] == ["code"]
    assert submit["properties"]["files"]["items"] == {"type": "string"}
    assert all(schema["description"] for schema in schemas.values())


@pytest.mark.parametrize("arguments", ['{"code": "f = \\"\\ud83d\\""}', {"code": 'f = "\ud83d"'}])
def test_half_a_character_is_no_reason_to_refuse_a_call(arguments: str | dict[str, object]) -> None:
    assert parse_call(TOOLS[ToolSet.CODE], "execute_code", arguments) == ExecuteCode(code='f = "\\ud83d"')


def test_no_files_may_be_said_in_any_way() -> None:
    for files in ("", ', "files": null', ', "files": []', ', "files": "[]"'):
        assert parse_call(TOOLS[ToolSet.CODE], "submit_solution", f'{{"code": "1"{files}}}') == SubmitSolution(code="1")


def test_arguments_nested_without_end_are_refused() -> None:
    told = parse_call(TOOLS[ToolSet.CODE], "execute_code", "[" * 100_000)
    assert told == "error: the arguments of execute_code are wrong: nested too deeply; it takes code"


@pytest.mark.parametrize(
    "code",
    [
        "print(open('a/b.txt').read())",
        "'''What\nit does.'''\n# A remark.\nfrom __future__ import annotations\nprint(open('a/b.txt').read())",
        "from __future__ import (\n    annotations,\n)\nfrom a import c\nprint(c.X)",
        "",
    ],
)
def test_code_finds_its_files_wherever_other_statements_may_come_first(code: str, tmp_path: Path) -> None:
    files = {"a/b.txt": base64.b64encode(b"here").decode(), "a/c.py": base64.b64encode(b"X = 'here'").decode()}
    # Our own words, not a model's.
    done = subprocess.run(
        [sys.executable, "-"], input=with_files(code, files), capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.stderr == ""
    assert done.stdout == ("here\n" if code else "")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"here"


@pytest.mark.parametrize("code", ["x = (", "'''open"])
def test_code_that_is_no_python_stays_as_it_is(code: str) -> None:
    assert with_files(code, {"a": ""}) == code
