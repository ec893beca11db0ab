"""One scripted conversation with tools, and every observation it must get, wherever it is played.

What a policy writes is text: the arguments of a call are given as it writes them. Each trainer and each command plays
the same messages, and its tests compare with the same expectations, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandrl.config.words import ToolSet
from sandrl.problems import Problem
from tests.support.scripted_model import Answer, Question, Says, Script

PROBLEM = Problem("inc", "Write f(x), which adds one.", tests=("assert f(1) == 2", "assert f(41) == 42"))
TOOL_SET = ToolSet.ALL
TIMEOUT_SECONDS = 5.0

_LEFT_OUT = "\n… the middle of the output is left out …\n"
_BEFORE = "error: a solution was submitted before"
_NONE_LEFT = "error: no tool calls are left"
_IMPORTING = "from lib.helper import f"


@dataclass(frozen=True)
class Call:
    """A call: the tool, its arguments as written, and what the policy is to read about it."""

    name: str
    arguments: str
    told: str


def _call(tool: str, told: str, **arguments: object) -> Call:
    return Call(tool, json.dumps(arguments), told)


def _wrong(tool: str, arguments: str, why: str, takes: str) -> Call:
    return Call(tool, arguments, f"error: the arguments of {tool} are wrong: {why}; it takes {takes}")


_ONE = _call("execute_code", "1", code="print(1)")
_NO_SUCH = "error: there is no tool 'rm'; the tools are execute_code, submit_solution, bash, read_file, write_file"

SUBMITTED: Sequence[Sequence[Call]] = (
    # What a program prints, complains and ends with; the files it leaves.
    [
        _call(
            "execute_code",
            "out\nto stderr\nerror: exit code 3",
            code="import sys\nprint('out')\nprint('to stderr', file=sys.stderr)\nsys.exit(3)",
        )
    ],
    [_call("execute_code", "(no output)", code="open('left.txt', 'w').write('27')"), _ONE],
    [_call("execute_code", f"{'a' * 1000}{_LEFT_OUT}{'b' * 3000}", code="print('a' * 3000 + 'b' * 3000)")],
    [
        _call(
            "execute_code",
            f"{'a' * 1000}{_LEFT_OUT}{'b' * 2989}\nthe reason\nerror: exit code 1",
            code="import sys\nprint('a' * 900_000 + 'b' * 100_000)\nsys.exit('the reason')",
        )
    ],
    [_call("execute_code", "é so far\nerror: timeout", code="print('é so far', flush=True)\nwhile True: pass")],
    # What is wrong with calls.
    [_wrong("execute_code", "print(1)", "no JSON object: Expecting value: line 1 column 1 (char 0)", "code")],
    [_wrong("execute_code", '["print(1)"]', "no JSON object: a list", "code")],
    [_wrong("execute_code", "{}", "code: Field required", "code")],
    [_wrong("execute_code", '{"code": 1}', "code: Input should be a valid string", "code")],
    [_wrong("execute_code", '{"code": "", "x": 1}', "x: Extra inputs are not permitted", "code")],
    [_wrong("write_file", '{"path": "a"}', "content: Field required", "path, content")],
    [Call("execute_code", json.dumps('{"code": "print(7)"}'), "7")],
    [
        Call("rm", '{"path": "/"}', _NO_SUCH),
        Call("", "{}", _NO_SUCH.replace("there is no tool 'rm'", "the call names no tool")),
    ],
    # Shell and files.
    [_call("bash", "27\nerror: exit code 4", command="cat left.txt; exit 4")],
    [
        _call("write_file", "(no output)", path="lib/helper.py", content="def f(x):\n    return x + 1\n"),
        _call("read_file", "def f(x):\n    return x + 1", path="lib/helper.py"),
        _call("read_file", "none.txt: No such file or directory\nerror: exit code 1", path="none.txt"),
    ],
    # Submissions that are none.
    [_call("submit_solution", "error: not submitted: the code is empty", code=" ")],
    [_wrong("submit_solution", '{"code": "", "files": "lib"}', "files: Input should be a valid list", "code, files")],
    [
        _call(
            "submit_solution",
            "error: not submitted: none.py: No such file or directory\nerror: exit code 1",
            code=_IMPORTING,
            files=["none.py"],
        )
    ],
    # The submission, and what is called after it.
    [
        _call("submit_solution", "Submitted.", code=_IMPORTING, files=["lib/helper.py"]),
        _call("submit_solution", _BEFORE, code="x = 1"),
        Call("execute_code", "{broken", _BEFORE),
    ],
)
"""An episode that ends with its submission, which is right."""

AFTER: Sequence[Call] = (Call("execute_code", '{"code": "print(1)"}', _BEFORE), Call("rm", "", _BEFORE))
"""What the policy calls in a further message, where its trainer asks it for one."""

MOST_CALLS = 4
SPENT: Sequence[Sequence[Call]] = (
    [_ONE],
    [Call("rm", "{}", _NO_SUCH), _ONE],
    [_ONE, Call("execute_code", _ONE.arguments, _NONE_LEFT), Call("submit_solution", '{"code": "x"}', _NONE_LEFT)],
)
"""An episode with one call more than it may have, and a submission too late; calls that are none count."""


def count(messages: Sequence[Sequence[Call]]) -> int:
    """How many calls an episode has that count."""
    return sum(call.told not in (_BEFORE, _NONE_LEFT) for message in messages for call in message)


def told(messages: Sequence[Sequence[Call]]) -> list[str]:
    """Every observation of an episode, in order."""
    return [call.told for message in messages for call in message]


def problems_file(directory: Path) -> Path:
    """The problem, in a file for a command."""
    path = directory / "problem.jsonl"
    row = {"task_id": PROBLEM.task_id, "prompt": PROBLEM.prompt, "tests": PROBLEM.tests}
    path.write_text(json.dumps(row), encoding="utf-8")
    return path


def script(messages: Sequence[Sequence[Call]]) -> Script:
    """What a model behind an endpoint answers."""

    def answer(question: Question) -> Answer:
        calls = (
            [] if question.turn == len(messages) else [(call.name, call.arguments) for call in messages[question.turn]]
        )
        return Says("", calls)

    return answer
