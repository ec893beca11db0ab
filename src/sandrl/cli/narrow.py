"""The help of a command in a narrow terminal: a list of options instead of a table.

The table has a column for each kind of name. Below 100 columns, it cuts long names (`--require-isolat…`), so the option
cannot be read from its help.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from typing import Any

from typer.core import TyperCommand

_WIDE = 100


class NarrowHelpCommand(TyperCommand):
    """A command whose help shows the whole name of each option, also in a narrow terminal."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes a table if the terminal has room for it, otherwise a list."""
        if shutil.get_terminal_size().columns >= _WIDE:
            super().format_help(ctx, formatter)
        else:
            # The plain help of click, which Typer's class replaces by the table.
            super(TyperCommand, self).format_help(ctx, formatter)

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
