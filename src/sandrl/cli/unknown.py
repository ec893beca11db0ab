"""Errors about unknown options and commands, which name what was probably meant (`sandrl.suggestions`)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import typer

from sandrl.cli.commands import HELP_ALL
from sandrl.cli.text import visible
from sandrl.errors import UsageError
from sandrl.suggestions import COMMANDS, NOTES, folded, meant, meant_exactly


def check_options(command: Any, ctx: typer.Context, args: Sequence[str]) -> dict[str, Any]:
    """Parses the words of a command by parameter, and refuses all options at once that it does not have.

    Raises:
        UsageError: If there is an unknown option.
    """
    left, words = list(args), dict[str, Any]()
    unknown: list[tuple[str, str | None]] = []
    while True:
        try:
            words, _, _ = command.make_parser(ctx).parse_args(args=list(left))
        except Exception as error:
            # Click's own class is elsewhere in some releases of Typer.
            if type(error).__name__ == "NoSuchOption":
                unknown.append(_take(error.option_name, left))  # type: ignore[attr-defined]
                continue
            if not unknown:
                raise
        if not unknown:
            return words
        hint = f"all options: {ctx.command_path} {HELP_ALL}"
        raise UsageError(f"{ctx.command_path} has no {_said(command, unknown, words.get('problems'))}", hint=hint)


def _said(command: Any, unknown: Sequence[tuple[str, str | None]], problems: object) -> str:
    # Unknown options, each with what was probably meant; a split belongs to the set of problems that is named.
    said = []
    for word, value in unknown:
        suggested = "" if folded(word) in NOTES else option_meant(command, word, value)
        if isinstance(problems, str) and ":" not in problems:
            suggested = suggested.replace("--problems SET:", f"--problems {visible(problems, 80)}:")
        meaning = f"did you mean {suggested}?" if suggested else NOTES.get(folded(word), "")
        said.append((visible(word, 80), meaning))
    if len(said) == 1:
        [(word, meaning)] = said
        return f"option {word}" + (f"; {meaning}" if meaning else "")
    return "options " + ", ".join(f"{word} ({meaning})" if meaning else word for word, meaning in said)


def option_meant(command: Any, word: str, value: str | None = None) -> str:
    """The option of a command that was probably meant, with the value that was given; empty if none fits."""
    parameters: dict[str, tuple[Any, str]] = {}
    for parameter in command.params:
        for flag in (*parameter.opts, *parameter.secondary_opts):
            if flag.startswith("--"):
                parameters.setdefault(folded(flag), (parameter, flag))
    for parameter in command.params:
        if not getattr(parameter, "hidden", False):
            parameters.setdefault(folded(parameter.name), (parameter, _longest(parameter)))
    found = meant(word, parameters)
    if found is None:
        return ""
    parameter, flag = parameters[found.name]
    if parameter.param_type_name == "argument":
        shown = parameter.metavar.strip("[]") if value is None else shlex.quote(visible(value, 80))
        return f"the argument {shown}, without an option"
    if getattr(parameter, "is_flag", False):
        return flag
    given = found.value(value or "") if value is not None or "{value}" not in found.form else ""
    return f"{flag} {shlex.quote(visible(given, 80))}" if given else flag


def refuse_command(group: Any, ctx: typer.Context, name: str) -> NoReturn:
    """Refuses a command that a group does not have.

    Raises:
        UsageError: Always.
    """
    message = f"{ctx.command_path} has no command {visible(name, 80)!r}"
    path = command_meant(group, ctx, name)
    raise UsageError(
        f"{message}; did you mean {path!r}?" if path else message, hint=f"all commands: {ctx.command_path} --help"
    )


def command_meant(group: Any, ctx: typer.Context, name: str) -> str:
    """The command that was probably meant, with the words before it; empty if none fits.

    Commands of the same group come first, then those of the whole command line.
    """
    from sandrl.cli.app import application

    root = ctx.find_root()
    within = ctx.command_path.split()[1:]
    # Of the command line, only the command that was called is loaded.
    paths = list(_paths(typer.main.get_command(application())))
    near = {path[len(within) :]: path for path in paths if path[: len(within)] == tuple(within)}
    own = {" ".join(rest): path for rest, path in near.items() if len(rest) == 1}
    own_words = {rest: COMMANDS[" ".join(path)] for rest, path in own.items() if " ".join(path) in COMMANDS}
    groups = {each: (*within, each) for each in getattr(group, "commands", {})}
    every = {" ".join(path): path for path in paths}
    for look in (meant_exactly, meant):
        if (found := look(name, [*own, *groups], own_words)) is not None:
            return " ".join([root.command_path, *(own.get(found.name) or groups[found.name])])
        if (found := look(name, every, COMMANDS)) is not None:
            return " ".join([root.command_path, *every[found.name]])
        same = [path for path in paths if folded(path[-1]) == folded(name)]
        if len(same) == 1:
            return " ".join([root.command_path, *same[0]])
    return ""


def _paths(command: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, each in getattr(command, "commands", {}).items():
        if getattr(each, "commands", None):
            yield from _paths(each, (*before, name))
        else:
            yield (*before, name)


def _longest(parameter: Any) -> str:
    return str(max(parameter.opts, key=len))


def _take(name: str, args: list[str]) -> tuple[str, str | None]:
    is_long = name.startswith("--")
    for place, word in enumerate(args):
        typed, equals, value = word.partition("=")
        is_cut = not is_long and word.startswith("-") and not word.startswith("--") and name[1:2] in word
        if typed != name and not is_cut:
            continue
        del args[place]
        if equals:
            return typed, value
        following = args[place] if place < len(args) else "-"
        if following.startswith("-") and not following[1:2].isdigit():
            return typed, None
        del args[place]
        return typed, following
    args.clear()
    return name, None
