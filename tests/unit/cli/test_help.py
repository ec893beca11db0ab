"""The short and the whole help, also in narrow terminals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.command_line import command_of
from typer.testing import CliRunner

from sandrl.cli.app import application


def all_commands(words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command, _ = command_of(list(words))
    if not hasattr(command, "commands"):
        yield words, command
    for name in getattr(command, "commands", {}):
        yield from all_commands((*words, name))


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize(("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in all_commands()])
def test_help_shows_the_whole_name_of_every_option(words: tuple[str, ...], command: Any, columns: int) -> None:
    shown = CliRunner().invoke(application(), [*words, "--help-all"], env={"COLUMNS": str(columns)}).stdout
    names = shown.replace(",", " ").split()
    options = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("-")}
    assert not {option for option in options if option not in names}
    assert command.help.partition(" ")[0] in shown


@pytest.mark.parametrize(("flag", "columns"), [("--help", 60), ("-h", 120)])
@pytest.mark.parametrize(("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in all_commands()])
def test_help_shows_about_a_dozen_options_and_names_the_way_to_the_others(
    words: tuple[str, ...], command: Any, columns: int, flag: str
) -> None:
    shown = CliRunner().invoke(application(), [*words, flag], env={"COLUMNS": str(columns)}).stdout
    names = set(shown.replace(",", " ").split())
    listed = [each for each in command.params if each.param_type_name == "option" and max(each.opts, key=len) in names]
    options = [each for each in command.params if each.param_type_name == "option"]
    assert len(listed) <= 15
    last = shown.split("\n\n")[-1].strip() if columns < 100 else shown.rstrip().splitlines()[-1].strip()
    if len(listed) < len(options):
        assert len(listed) >= 10
        path = " ".join(["sandrl", *words])
        left_out = len(options) - len(listed)
        assert " ".join(last.split()) == f"This is the short help. {path} --help-all shows {left_out} more options."
    else:
        assert "--help-all" not in shown


@pytest.mark.parametrize(("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in all_commands()])
def test_the_short_help_names_options_that_exist(words: tuple[str, ...], command: Any) -> None:
    assert set(getattr(command.callback, "short_help_names", ())) <= {each.name for each in command.params}
