"""Messages and hints name only commands and options that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import command_of, surplus_arguments, unknown_options

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sandrl"
# Exploits are data, and the scripts of shell completion are programs.
NOT_MESSAGES = ("redteam/corpus/", "cli/completion/scripts.py")
# Stands for a value that is known only when the message is written.
VALUE = "VALUE"
# Words after `sandrl` where it is the subject of a sentence and not the name of a command.
SENTENCE = frozenset(["and", "cannot", "did", "in", "needs", "sandbox", "sets", "trains"])

# A call ends at punctuation, in backticks at the closing one.
_CALL = re.compile(r"(?<![\w/.'-])sandrl (?P<words>(?:[^`;:,().\x22\n]|\.(?! |$))*)")


def faults_of(message: str) -> list[str]:
    """The calls of `sandrl` in a message that its command line would refuse, with the reason."""
    return [fault for call in _CALL.finditer(message) for fault in _faults_of_call(call, message)]


def _faults_of_call(call: re.Match[str], message: str) -> Iterator[str]:
    words = [word for word in call["words"].split() if word != "--debug"]
    if not words or words[0] in SENTENCE or VALUE in words[0] or words[0] == "…":
        return
    named = f"sandrl {' '.join(words)}"
    try:
        command, given = command_of(words)
    except KeyError as error:
        if VALUE not in str(error):
            yield f"{named}: there is no command {error}"
        return
    for option in unknown_options(command, given):
        yield f"{named}: there is no option {option}"
    # Elsewhere the words after a call may be the rest of a sentence.
    is_delimited = message[: call.start()].endswith("`") and message[call.end() :].startswith("`")
    if is_delimited or message[: call.start()].endswith(": "):
        for word in surplus_arguments(command, given):
            yield f"{named}: {word} is one argument too many"


def messages_of(path: Path) -> Iterator[str]:
    """The texts in a file of Python, without docstrings; values in f-strings are `VALUE`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    apart: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as docstring):
                apart.add(docstring)
            case ast.JoinedStr(values=parts):
                apart.update(parts)
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else VALUE for part in parts)
            case ast.Constant(value=str(text)) if node not in apart:
                yield text


FILES = [
    path for path in sorted(SOURCE.rglob("*.py")) if not path.relative_to(SOURCE).as_posix().startswith(NOT_MESSAGES)
]


def test_every_call_in_a_message_exists() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in FILES
        for text in messages_of(path)
        for fault in faults_of(text)
    ]
    assert not faults


def test_calls_are_found_in_messages() -> None:
    calls = [call[0] for path in FILES for text in messages_of(path) for call in _CALL.finditer(text)]
    assert len(calls) > 50
    assert any(call.startswith(f"sandrl runs show {VALUE}") for call in calls)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("sandrl problems ls --problems … lists them", "there is no option --problems"),
        ("see `sandrl problem ls`", "there is no command 'problem'"),
        ("sandrl runs list shows them", "there is no command 'list'"),
        ("use `sandrl grpo problems.jsonl`", "problems.jsonl is one argument too many"),
        ("list them: sandrl runs ls RUN", "RUN is one argument too many"),
        (f"sandrl runs show {VALUE} --everything; try again", "there is no option --everything"),
    ],
)
def test_a_wrong_call_is_found(message: str, fault: str) -> None:
    [found] = faults_of(message)
    assert found.endswith(fault)


@pytest.mark.parametrize(
    "message",
    [
        "sandrl problems ls SET|FILE lists the names",
        "use `sandrl problems validate --problems FILE`, or leave it out",
        f"sandrl sandboxes cleanup --tag {VALUE} --yes",
        f"sandrl {VALUE} --resume {VALUE} continues it",
        "sandrl --debug … shows the traceback",
        "the package trl is installed, but sandrl needs another version",
    ],
)
def test_a_right_call_is_accepted(message: str) -> None:
    assert faults_of(message) == []


def test_a_wrong_hint_in_a_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""Calls `sandrl nothing`."""\nHINT = f"for {1}: sandrl runs shows {2} --full"\n', encoding="utf-8"
    )
    assert [fault for text in messages_of(file) for fault in faults_of(text)] == [
        f"sandrl runs shows {VALUE} --full: there is no command 'shows'"
    ]
