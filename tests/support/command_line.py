"""The command line as data: which commands there are, and which options each of them has."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import typer

from sandrl.cli.app import application


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command, or the group of commands, that words name, and the words that it is given.

    Raises:
        KeyError: If there is no such command.
    """
    command = _root()
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        command = command.commands[name]
    return command, words


def unknown_options(command: Any, words: list[str]) -> list[str]:
    """The options among words that a command does not have."""
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    named = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
    return sorted(named - known - {"--help", "--help-all"})


def surplus_arguments(command: Any, words: list[str]) -> list[str]:
    """The words beyond the arguments that a command takes; each option that needs a value is followed by one."""
    takes_value = {flag for each in command.params if not getattr(each, "is_flag", True) for flag in each.opts}
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    given: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in takes_value
        else:
            given.append(word)
    return [] if any(each.nargs == -1 for each in arguments) else given[len(arguments) :]


def options_of_all() -> set[str]:
    """The options of all commands."""

    def of(command: Any) -> set[str]:
        own = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)} | {
            "--help",
            "--help-all",
        }
        return own.union(*map(of, getattr(command, "commands", {}).values()))

    return of(_root())


@cache
def _root() -> Any:
    return typer.main.get_command(application())
