"""The short and the whole help, also in narrow terminals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import typer
from tests.support.command_line import leaf_commands

from sandrl.cli.app import application

# Its own: a command keeps the names of its help option from its first context, which other tests make without a parent.
ROOT = typer.main.get_command(application())


every_command = pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in leaf_commands().items()]
)


@pytest.fixture(params=[60, 120])
def help_of(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    monkeypatch.setenv("COLUMNS", str(request.param))

    def show(*words: str) -> str:
        ROOT(args=list(words), prog_name="sandrl", standalone_mode=False)
        return capsys.readouterr().out

    return show


@every_command
def test_help_shows_the_whole_name_of_every_option(
    words: tuple[str, ...], command: Any, help_of: Callable[..., str]
) -> None:
    shown = help_of(*words, "--help-all")
    names = shown.replace(",", " ").split()
    options = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts) if flag.startswith("-")}
    assert not {option for option in options if option not in names}
    assert command.help.partition(" ")[0] in shown


@every_command
def test_help_shows_about_a_dozen_options_and_names_the_way_to_the_others(
    words: tuple[str, ...], command: Any, help_of: Callable[..., str]
) -> None:
    assert set(getattr(command.callback, "short_help_names", ())) <= {each.name for each in command.params}
    shown = help_of(*words, "-h")
    names = set(shown.replace(",", " ").split())
    options = [each for each in command.params if each.param_type_name == "option"]
    listed = [each for each in options if max(each.opts, key=len) in names]
    assert len(listed) <= 15
    if len(listed) < len(options):
        assert len(listed) >= 10
        path, left_out = " ".join(["sandrl", *words]), len(options) - len(listed)
        last = " ".join(shown.split("\n\n")[-1].split())
        assert last == f"This is the short help. {path} --help-all shows {left_out} more options."
    else:
        assert "--help-all" not in shown
