"""The help of a command: the options that most people need, and with `--help-all` all of them, by group.

A configuration names the options of its command's short help (`Config.short_help`), so an option that is added later
appears in `--help-all` only, unless it is named there. In a narrow terminal, help is a list instead of a table: below
100 columns, the table cuts long names (`--require-isolat…`), so the option could not be read from its help.
"""

from __future__ import annotations

import copy
import shutil
from collections import defaultdict
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

HELP_ALL = "--help-all"

_WIDE = 100


class HelpCommand(TyperCommand):
    """A command with a short and a whole help, which show the whole name of each option in every terminal."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Answers `--help-all`."""
        _answer(ctx, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes a table if the terminal has room for it, otherwise a list."""
        shown = self if ctx.meta.get(HELP_ALL) else self._short(ctx.command_path)
        if shutil.get_terminal_size().columns >= _WIDE:
            TyperCommand.format_help(shown, ctx, formatter)
        else:
            # The plain help of click, which Typer's class replaces by the table.
            super(TyperCommand, shown).format_help(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the options of each panel in a section with its title, as the table does."""
        sections: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections[getattr(parameter, "rich_help_panel", None) or default].append(record)
        first = [title for title in ("Arguments", "Options") if title in sections]
        for title in [*first, *(title for title in sections if title not in first)]:
            with formatter.section(title):
                formatter.write_dl(sections[title])

    def _short(self, path: str) -> HelpCommand:
        names = getattr(self.callback, "short_help_names", None)
        if not names:
            return self
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        options = [copy.copy(each) for each in self.params if each.name in names and each not in arguments]
        for each in options:
            each.rich_help_panel = None  # type: ignore[attr-defined]
        short = copy.copy(self)
        short.params = [*arguments, *options]
        left_out = len(self.params) - len(short.params)
        short.epilog = f"This is the short help. {path} {HELP_ALL} shows {left_out} more options."
        return short


class HelpGroup(TyperGroup):
    """A group of commands, whose help is whole."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Answers `--help-all`."""
        _answer(ctx, args[:1])
        return super().parse_args(ctx, args)


def asks_for_all(args: Sequence[str]) -> bool:
    """Whether the words of a command ask for the whole help."""
    return HELP_ALL in takewhile(lambda word: word != "--", args)


def _answer(ctx: typer.Context, args: Sequence[str]) -> None:
    if asks_for_all(args) and not ctx.resilient_parsing:
        ctx.meta[HELP_ALL] = True
        typer.echo(ctx.get_help())
        ctx.exit()
