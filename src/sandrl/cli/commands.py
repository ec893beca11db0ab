"""The classes of all commands: their help, and checks that apply to the values of all options.

The help of a command shows the options that most people need, and with `--help-all` all of them, by group: a
configuration names the options of the short help (`Config.short_help`), so an option that is added later appears in
`--help-all` only, unless it is named there. Help is written as a list, which never cuts a name, and without
`typer.rich_utils`, which takes longer to import than everything else that help needs.

An empty text usually comes from an unset variable of a script (`--image "$IMAGE"`), and infinity, NaN and numbers
beyond 64 bits are never intended, so all of these are refused. Each command checks all of its values before it runs, so
a new option cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from sandrl.bounds import check_finite, check_text
from sandrl.cli.tables import wrapped
from sandrl.errors import UsageError

HELP_ALL = "--help-all"

MOST_COLUMNS = 120
"""Help is not wider than this, in any terminal."""

_LARGEST = 2**63 - 1
# The words of a program to be run in a sandbox are the program's business.
_FREE = frozenset({"command"})


class CheckedCommand(TyperCommand):
    """A command with a short and a whole help, which refuses empty texts and impossible numbers."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuses empty words, before the path that an empty word would become is the current directory.

        Raises:
            UsageError: If there is one, or an option does not exist.
        """
        if not ctx.resilient_parsing:
            _answer(ctx, args)
            from sandrl.cli.unknown import check_options

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

    def format_options(self, ctx: Any, formatter: Any) -> None:
        names = self._short_names(ctx)
        shown = [each for each in self.get_params(ctx) if not names or _is_argument(each) or each.name in names]
        _write_parameters(ctx, formatter, shown, by_panel=not names)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        names = self._short_names(ctx)
        left_out = [each for each in self.params if names and not _is_argument(each) and each.name not in names]
        if left_out:
            text = f"  This is the short help. {ctx.command_path} {HELP_ALL} shows {len(left_out)} more options."
            formatter.write_paragraph()
            # Click breaks lines within the names of options, too.
            formatter.write(wrapped(text, formatter.width, indent="  ") + "\n")

    def _short_names(self, ctx: Any) -> frozenset[str]:
        # The options of the short help; none for all of them.
        names: frozenset[str] = getattr(self.callback, "short_help_names", frozenset())
        return names | {"help"} if names and HELP_ALL not in ctx.meta else frozenset()

    def _given(self, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
        for parameter in self.params:
            if parameter.name not in _FREE:
                for value in _each(values.get(str(parameter.name))):
                    yield _shown(parameter), value


class CheckedGroup(TyperGroup):
    """A group of commands, which shows its help without one, and names the command that was meant by an unknown one."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if not ctx.resilient_parsing:
            _answer(ctx, args[:1])
            if not args and not self.invoke_without_command:
                typer.echo(ctx.get_help())
                ctx.exit(UsageError.exit_code)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Finds the command.

        Raises:
            UsageError: If there is none of that name.
        """
        is_word = args and not args[0].startswith("-") and not ctx.resilient_parsing
        if is_word and self.get_command(ctx, args[0]) is None:
            from sandrl.cli.unknown import refuse_command

            refuse_command(self, ctx, args[0])
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(ctx, formatter, self.get_params(ctx), by_panel=True)
        # Whole summaries, which Typer cuts.
        rows = [
            (name, " ".join((each.help or "").partition("\n\n")[0].split())) for name, each in self.commands.items()
        ]
        _write_section(formatter, "Commands", rows)


def check_all(application: typer.Typer) -> None:
    """Makes every command of an application, and of those in it, one of these classes."""
    for command in application.registered_commands:
        command.cls = CheckedCommand
    for group in application.registered_groups:
        if group.typer_instance is not None:
            group.cls = CheckedGroup
            check_all(group.typer_instance)


def _answer(ctx: typer.Context, args: Sequence[str]) -> None:
    if HELP_ALL in takewhile(lambda word: word != "--", args):
        ctx.meta[HELP_ALL] = True
        typer.echo(ctx.get_help())
        ctx.exit()


def _write_parameters(ctx: Any, formatter: Any, parameters: Sequence[Any], *, by_panel: bool) -> None:
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is not None:
            panel = getattr(parameter, "rich_help_panel", None) if by_panel else None
            title = "Arguments" if _is_argument(parameter) else panel or "Options"
            sections.setdefault(title, []).append(record)
    for title, rows in sections.items():
        _write_section(formatter, title, rows)


def _write_section(formatter: Any, title: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with formatter.section(typer.style(title, bold=True)):
            named = [(typer.style(name, fg="cyan"), text) for name, text in rows]
            formatter.write_dl(named, col_max=max(formatter.width // 3, 30))


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _shown(parameter: Any) -> str:
    if _is_argument(parameter):
        return str(parameter.metavar or parameter.name.strip("_").upper())
    return str(max(parameter.opts, key=len))


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
