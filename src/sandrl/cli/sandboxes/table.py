"""Sandboxes as rows of text.

The design decision: ids are for copying, so they are never cut. A pipe gets every column whole. A terminal gets the
columns that fit, the least important left out first and named; where not even status and age fit beside an id, each
sandbox gets two lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from sandrl.cli.text import visible

if TYPE_CHECKING:
    from sandrl.sandboxes.listing import Listed

_GAP = "  "
_COLUMNS = ("ID", "STATUS", "AGE", "EXPIRES", "JOB", "OWNER", "TAGS")
_WIDE_COLUMNS = (*_COLUMNS, "IMAGE", "RUNNER", "PROCESS")
# What is left out first where there is no room.
_DISPENSABLE = ("TAGS", "EXPIRES", "JOB", "OWNER")
_LEAST_TAGS = 12


@dataclass(frozen=True, slots=True)
class TableLines:
    """A table, ready to be shown.

    Attributes:
        header: The names of its columns; empty where each row has two lines.
        rows: One text for each sandbox, perhaps of two lines.
        hidden: Columns for which there is no room.
    """

    header: str
    rows: tuple[str, ...]
    hidden: tuple[str, ...] = ()


def span(seconds: float | None) -> str:
    """A time in its largest unit: 45s, 12m, 3h, 2d; `-` if it is not known."""
    if seconds is None:
        return "-"
    for unit, length, least in (("d", 86_400, 129_600), ("h", 3_600, 5_400), ("m", 60, 60)):
        if seconds >= least:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def expiry(at: datetime | None, now: datetime) -> str:
    """When a lifetime is over, from now."""
    if at is None:
        return "-"
    left = (at - now).total_seconds()
    return f"in {span(left)}" if left > 0 else "over"


def cells_of(listed: Listed, now: datetime, *, wide: bool = False) -> dict[str, str]:
    """What stands in the columns of one sandbox, safe to show."""
    sandbox, process = listed.sandbox, listed.process
    cells = {
        "ID": sandbox.id,
        "STATUS": sandbox.status,
        "AGE": span(sandbox.age_seconds(now)),
        "EXPIRES": "-" if sandbox.has_ended else expiry(sandbox.expires_at, now),
        "JOB": listed.job_id or "-",
        "OWNER": listed.owner.value if listed.owner is not None else "-",
        "TAGS": ",".join(sandbox.tags if wide else listed.own_tags) or "-",
    }
    if wide:
        cells["IMAGE"] = sandbox.image or "-"
        cells["RUNNER"] = sandbox.runner or "-"
        cells["PROCESS"] = f"{process.host}:{process.pid}" if process is not None else "-"
    return {name: visible(text) for name, text in cells.items()}


def table(listed: Sequence[Listed], *, wide: bool = False, width: int | None = None) -> TableLines:
    """Lays out sandboxes.

    Args:
        listed: What to show.
        wide: All there is to tell, and nothing cut.
        width: The columns of a terminal; None for as wide as it gets.
    """
    from rich.cells import cell_len, set_cell_size

    now = datetime.now(UTC)
    names = list(_WIDE_COLUMNS if wide else _COLUMNS)
    rows = [cells_of(each, now, wide=wide) for each in listed]
    widths = {name: max([len(name), *(cell_len(row[name]) for row in rows)]) for name in names}

    def needed() -> int:
        return sum(_LEAST_TAGS if name == "TAGS" else widths[name] for name in names) + len(_GAP) * (len(names) - 1)

    hidden: list[str] = []
    if width is not None and not wide:
        for name in _DISPENSABLE:
            if name in names and needed() > width:
                names.remove(name)
                hidden.append(name)
        if needed() > width:
            return TableLines("", tuple(_two_lines(row, width) for row in rows))
        if "TAGS" in names:
            widths["TAGS"] = min(widths["TAGS"], width - needed() + _LEAST_TAGS)

    def line(cells: dict[str, str]) -> str:
        fitted = [
            cells[name] if cell_len(cells[name]) <= widths[name] else set_cell_size(cells[name], widths[name] - 1) + "…"
            for name in names
        ]
        padded = [set_cell_size(text, widths[name]) for name, text in zip(names, fitted, strict=True)]
        return _GAP.join(padded).rstrip()

    return TableLines(line({name: name for name in names}), tuple(map(line, rows)), tuple(hidden))


def _two_lines(cells: dict[str, str], width: int) -> str:
    words = [cells[name] for name in ("STATUS", "AGE", "OWNER", "JOB") if cells[name] != "-"]
    return f"{cells['ID']}\n  {visible(' '.join(words), width - 2)}"


def terminal_width(stream: object = None) -> int | None:
    """The columns of the terminal that a stream (standard output unless given) is; None if it is none."""
    import shutil

    stream = sys.stdout if stream is None else stream
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return shutil.get_terminal_size().columns if is_terminal else None


def print_table(listed: Sequence[Listed], *, wide: bool = False, most: int | None = None, err: bool = False) -> None:
    """Prints sandboxes.

    Args:
        listed: What to show.
        wide: All there is to tell, and nothing cut.
        most: How many rows at most; the rest is counted.
        err: On standard error.
    """
    shown = listed[:most]
    laid_out = table(shown, wide=wide, width=terminal_width(sys.stderr if err else sys.stdout))
    for text in (laid_out.header, *laid_out.rows):
        if text:
            typer.echo(text, err=err)
    if len(shown) < len(listed):
        typer.echo(f"… and {len(listed) - len(shown)} more", err=err)
    if laid_out.hidden:
        typer.echo(f"(no room for {', '.join(reversed(laid_out.hidden))}; -o wide shows all)", err=True)
