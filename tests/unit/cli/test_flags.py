"""Messages of the library name fields, and the command line shows its flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandrl
from sandrl.addresses import check_address
from sandrl.cli.configured import spelled_for
from sandrl.cli.flags import spell
from sandrl.cli.progress import remark
from sandrl.config.scoring import RewardConfig
from sandrl.errors import AuthenticationError, GateError, InputError, SandrlError, UsageError
from sandrl.events import Warned
from sandrl.sandboxes.cleanup import CleanupRequest
from sandrl.settings import RuntimeKind, Settings

SOURCES = Path(sandrl.__file__).parent
# The commands, and what names the flags of instructions in Dockerfiles.
ELSEWHERE = ("cli", "runtime/images/build", "runtime/images/dockerfile", "runtime/images/mounts")


def shown(error: SandrlError) -> tuple[str, str | None]:
    spell(error)
    return error.message, error.hint


def test_every_command_shows_flags_where_the_library_names_fields() -> None:
    with pytest.raises(AuthenticationError) as remote:
        Settings(Path("state"), Path("cache")).choose_runtime(RuntimeKind.REMOTE)
    assert str(remote.value).startswith("runtime remote needs credentials")
    message, hint = shown(remote.value)
    assert message == "--runtime remote needs credentials, and no credentials are set"
    assert str(hint).endswith("or use --runtime local")
    with pytest.raises(UsageError) as nothing:
        CleanupRequest()
    assert shown(nothing.value)[1] == "give --tag, --orphans, --older-than, ids of sandboxes, or --all"


def test_an_error_of_any_kind_is_spelled_with_the_flags_of_its_command() -> None:
    with pytest.raises(GateError) as gate, spelled_for(RewardConfig):
        raise GateError("the pass rate is 0.5, and fail_under requires 0.8", fields=("fail_under",))
    assert gate.value.message == "the pass rate is 0.5, and --fail-under requires 0.8"
    assert gate.value.fields == (), "spelled once"


def test_a_field_that_the_command_does_not_know_is_left_for_who_shows_the_error() -> None:
    with pytest.raises(UsageError) as caught, spelled_for(RewardConfig):
        raise UsageError("resume goes on with a run: leave out run_name", fields=("resume", "run_name"))
    assert caught.value.message == "resume goes on with a run: leave out --run-name"
    assert shown(caught.value)[0] == "--resume goes on with a run: leave out --run-name"


def test_ordinary_words_quoted_names_and_variables_stay() -> None:
    error = InputError("its problems are gone", hint="name them with `problems`", fields=("problems",))
    assert shown(error.at("run")) == ("run: its problems are gone", "name them with --problems")
    own = UsageError("set 'learning_rate': is set already", hint="use `learning_rate`", fields=("set", "learning_rate"))
    assert shown(own) == ("--set 'learning_rate': is set already", "use --learning-rate")
    with pytest.raises(UsageError) as address:
        check_address("nowhere", "CWSANDBOX_BASE_URL")
    assert shown(address.value)[0].startswith("CWSANDBOX_BASE_URL is not an address")


def test_warnings_are_spelled_when_they_are_drawn() -> None:
    warned = Warned("no code with `extract` auto", "another `extract` may find it", fields=("extract",))
    assert remark(warned) == "warning: no code with --extract auto\n  hint: another --extract may find it"


def test_no_message_of_the_library_names_a_flag_outside_of_a_command() -> None:
    found = [f"{path.relative_to(SOURCES)}: {text}" for path, text in said_by_the_library()]
    assert len(found) > 200
    # Flags of a whole command that is told, sandrl's or Ray's, are right wherever the message is read.
    flagged = [text for text in found if re.search(r"[ ('\"]--[a-z]", text)]
    assert [text for text in flagged if "sandrl " not in text and "`ray start" not in text] == []


def said_by_the_library() -> Iterator[tuple[Path, str]]:
    """The code of what errors and warnings are made of."""
    for path in SOURCES.rglob("*.py"):
        if path.relative_to(SOURCES).as_posix().startswith(ELSEWHERE):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and re.search(r"Error$|^Warned$", getattr(node.func, "id", "")):
                said = [*node.args, *(keyword.value for keyword in node.keywords)]
                yield from ((path, ast.unparse(each)) for each in said)
            elif isinstance(node, ast.Assign) and re.search("hint|message", ast.unparse(node.targets[0]).lower()):
                yield path, ast.unparse(node.value)
