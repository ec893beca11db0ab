"""The command line as data: which commands there are, and which options each of them has."""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def all_commands(words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and every group below some words, with its words; a group comes before its commands."""
    command, _ = command_of(list(words))
    for name, each in getattr(command, "commands", {}).items():
        yield (*words, name), each
        yield from all_commands((*words, name))


def leaf_commands() -> dict[tuple[str, ...], Any]:
    """Every command that is no group."""
    return {words: command for words, command in all_commands() if not hasattr(command, "commands")}


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
    commands = [_root(), *(command for _, command in all_commands())]
    own = {flag for each in commands for option in each.params for flag in (*option.opts, *option.secondary_opts)}
    return own | {"--help", "--help-all"}


@cache
def _root() -> Any:
    return typer.main.get_command(application())
