"""Help in narrow terminals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.command_line import command_of
from typer.testing import CliRunner

from sandrl.cli.app import app


def all_commands(words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command, _ = command_of(list(words))
    if not hasattr(command, "commands"):
        yield words, command
    for name in getattr(command, "commands", {}):
        yield from all_commands((*words, name))


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize(("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in all_commands()])
def test_help_shows_the_whole_name_of_every_option(words: tuple[str, ...], command: Any, columns: int) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(columns)}).stdout
    names = shown.replace(",", " ").split()
    options = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("-")}
    assert not {option for option in options if option not in names}
    assert command.help.partition(" ")[0] in shown
