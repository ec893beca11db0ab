"""Checks that apply to the values of all options of all commands.

An empty text usually comes from an unset variable of a script (`--image "$IMAGE"`), and infinity, NaN and numbers
beyond 64 bits are never intended, so all of these are refused. Each command checks all of its values before it runs, so
a new option cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from sandrl.bounds import check_finite, check_text
from sandrl.cli.help import HelpCommand, HelpGroup, asks_for_all
from sandrl.cli.unknown import check_options, refuse_command
from sandrl.errors import UsageError

_LARGEST = 2**63 - 1
# The words of a program to be run in a sandbox are the program's business.
_FREE = frozenset({"command"})


class CheckedCommand(HelpCommand):
    """A command that refuses empty texts and impossible numbers, whatever its options are."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuses empty words, before the path that an empty word would become is the current directory.

        Raises:
            UsageError: If there is one, or an option does not exist.
        """
        if not ctx.resilient_parsing and not asks_for_all(args):
            for name, value in self._given(check_options(self, ctx, args)):
                if isinstance(value, str):
                    check_text(name, value)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Checks the numbers, then runs the command.

        Raises:
            UsageError: If one cannot be meant.
        """
        for name, value in self._given(ctx.params):
            _check_number(name, value)
        return super().invoke(ctx)

    def _given(self, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        for parameter in self.params:
            if parameter.name not in _FREE:
                for value in _each(values.get(str(parameter.name))):
                    yield _shown(parameter), value


class CheckedGroup(HelpGroup):
    """A group of commands, which names the command that was probably meant by an unknown one."""

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Finds the command.

        Raises:
            UsageError: If there is none of that name.
        """
        if (
            args
            and not args[0].startswith("-")
            and self.get_command(ctx, args[0]) is None
            and not ctx.resilient_parsing
        ):
            refuse_command(self, ctx, args[0])
        return super().resolve_command(ctx, args)


def check_all(application: typer.Typer) -> None:
    """Makes every command of an application, and of those in it, check its values."""
    for command in application.registered_commands:
        command.cls = CheckedCommand
    for group in application.registered_groups:
        if group.typer_instance is not None:
            group.cls = CheckedGroup
            check_all(group.typer_instance)


def _shown(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.strip("_").upper())


def _each(value: object) -> Iterator[object]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _each(part)
    else:
        yield value


def _check_number(name: str, value: object) -> None:
    if isinstance(value, float):
        check_finite(name, value)
    if isinstance(value, int | float) and abs(value) > _LARGEST:
        raise UsageError(f"{name} is too large: {value}")
