"""Tables of text that fit the terminal, in the same way for every command.

Users copy ids, so a column of ids is never cut and never wrapped. A pipe receives every column in full. A terminal
receives the columns that fit: those of the highest rank are left out first. If the other columns still do not fit
beside the first column, each row has the first column on its own line and the others below it.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import typer

from sandrl.cli.text import visible

if TYPE_CHECKING:
    from rich.text import Text

_GAP = "  "
_INDENT = "  "
_NARROWEST = 20


class Cell(NamedTuple):
    """What stands in a column of a row.

    Attributes:
        text: One line of safe text.
    """

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        title: Its header.
        rank: 0 for a column that is always there; of the others, the highest is left out first.
        least: The fewest characters it may be cut to; None for a column that is never cut.
        wraps: Break what is too long between words instead of cutting it.
        is_number: Align it at the right.
        keeps_end: Cut what is too long at its beginning: models and paths differ at their ends.
    """

    title: str
    rank: int = 0
    least: int | None = None
    wraps: bool = False
    is_number: bool = False
    keeps_end: bool = False


class Line(tuple[Cell, ...]):
    """A row that is laid out: pieces of text, padding and line breaks included, each with its style."""

    __slots__ = ()

    def __str__(self) -> str:
        text = "".join(cell.text for cell in self)
        return "\n".join(line.rstrip() for line in text.split("\n"))

    def styled(self, style: str = "") -> Text:
        """The row as a terminal shows it."""
        from rich.text import Text

        text = Text.assemble(*self, style=style, no_wrap=True)
        text.rstrip()
        return text


@dataclass(frozen=True, slots=True)
class Layout:
    """A table that is laid out.

    Attributes:
        hidden: Titles of the columns for which there is no room, in the order of the table.
    """

    header: Line
    rows: tuple[Line, ...]
    hidden: tuple[str, ...] = ()


@dataclass(slots=True)
class Table:
    """Rows in columns.

    Attributes:
        columns: The first one names what a row is about.
        rows: A cell for each column; text without a style may stand for a cell.
    """

    columns: Sequence[Column]
    rows: list[Sequence[str | Cell]] = field(default_factory=list)

    def add(self, *cells: str | Cell) -> None:
        """Adds a row."""
        self.rows.append(cells)

    def lay_out(self, width: int | None) -> Layout:
        """Gives every column its place, in a terminal's width; None for as wide as the table gets."""
        rows = [[_cell(each) for each in row] for row in self.rows]
        return _lay_out([*enumerate(self.columns)], rows, width)

    def lines(self, width: int | None = None) -> list[Text]:
        """The table as a terminal shows it, its header included."""
        laid_out = self.lay_out(width)
        return [laid_out.header.styled("bold"), *(row.styled() for row in laid_out.rows)]

    def print(self, *, err: bool = False, whole: bool = False) -> Layout:
        """Prints the table, and returns what was printed; `whole` leaves out and cuts nothing."""
        stream = sys.stderr if err else sys.stdout
        laid_out = self.lay_out(None if whole else terminal_width(stream))
        if not stream.isatty():
            typer.echo("\n".join(map(str, (laid_out.header, *laid_out.rows))), err=err)
            return laid_out
        from rich.console import Console

        console = Console(file=stream, highlight=False, soft_wrap=True)
        console.print(laid_out.header.styled("bold"))
        for row in laid_out.rows:
            console.print(row.styled())
        return laid_out


def terminal_width(stream: object = None) -> int | None:
    """The columns of the terminal that a stream (standard output unless given) is; None if it is none."""
    stream = sys.stdout if stream is None else stream
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return max(shutil.get_terminal_size().columns, _NARROWEST) if is_terminal else None


def wrapped(text: str, width: int | None, *, indent: str = "") -> str:
    """A line broken between words to a width, if there is one; a longer word stays whole, as an id or a path."""
    if width is None:
        return text

    return textwrap.fill(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def print_wrapped(text: str, *, indent: str = "  ", err: bool = False) -> None:
    """Prints a line: on a terminal broken between words, into a pipe whole, for `grep`."""
    margin = text[: len(text) - len(text.lstrip(" "))]
    # Word by word, so that columns made of blanks stay.
    safe = margin + " ".join(visible(word) if word else "" for word in text[len(margin) :].split(" "))
    typer.echo(wrapped(safe, terminal_width(sys.stderr if err else sys.stdout), indent=indent), err=err)


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Prints what is known of one thing, a line for each name; on a terminal broken between words."""
    room = max((len(name) for name, _ in fields), default=0)
    width = terminal_width()
    for name, text in fields:
        line = f"{name:<{room}} {visible(text)}"
        longest = max(map(len, text.split()), default=0)
        if width is not None and room + 1 + longest > width:
            # An id that does not fit beside its name is whole on the next line.
            typer.echo(name)
            line = f"  {visible(text)}"
        typer.echo(wrapped(line, width, indent=" " * (room + 1)))


def _cell(each: str | Cell) -> Cell:
    return Cell(each) if isinstance(each, str) else each


def _lay_out(columns: list[tuple[int, Column]], rows: list[list[Cell]], width: int | None) -> Layout:
    natural = {
        at: max([_length(column.title), *(_length(row[at].text) for row in rows)]) for at, column in columns
    }  # fmt: skip
    shown = list(columns)
    if width is not None:
        for at, column in sorted(columns, key=lambda each: -each[1].rank):
            if column.rank and _needed(shown, natural) > width:
                shown.remove((at, column))
        if _needed(shown, natural) > width and len(columns) > 1:
            return _stacked(columns, rows, width)
    widths = _widths(shown, natural, width)
    hidden = tuple(column.title for at, column in columns if (at, column) not in shown)
    header = _line([Cell(column.title) for _, column in shown], shown, widths)
    return Layout(header, tuple(_line([row[at] for at, _ in shown], shown, widths) for row in rows), hidden)


def _stacked(columns: list[tuple[int, Column]], rows: list[list[Cell]], width: int) -> Layout:
    (first, column), *others = columns
    below = _lay_out(others, rows, max(width - len(_INDENT), 1))

    def under(cell: Cell, line: Line) -> Line:
        indented = (Cell(text.replace("\n", f"\n{_INDENT}"), style) for text, style in line)
        return Line([cell, Cell(f"\n{_INDENT}"), *indented])

    laid_out = (under(row[first], line) for row, line in zip(rows, below.rows, strict=True))
    return Layout(under(Cell(column.title), below.header), tuple(laid_out), below.hidden)


def _length(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _least(column: Column, natural: int) -> int:
    return natural if column.least is None else min(natural, max(column.least, len(column.title)))


def _needed(shown: list[tuple[int, Column]], natural: dict[int, int]) -> int:
    return sum(_least(column, natural[at]) for at, column in shown) + len(_GAP) * (len(shown) - 1)


def _widths(shown: list[tuple[int, Column]], natural: dict[int, int], width: int | None) -> list[int]:
    if width is None:
        return [natural[at] for at, _ in shown]
    spare = max(width - _needed(shown, natural), 0)
    widths = []
    for at, column in shown:
        more = min(spare, natural[at] - _least(column, natural[at]))
        spare -= more
        widths.append(_least(column, natural[at]) + more)
    return widths


def _line(cells: list[Cell], shown: list[tuple[int, Column]], widths: list[int]) -> Line:
    fitted = [_fitted(cell.text, column, width) for cell, (_, column), width in zip(cells, shown, widths, strict=True)]
    pieces: list[Cell] = []
    for number in range(max(map(len, fitted), default=1)):
        pieces += [Cell("\n")] if number else []
        for at, (cell, (_, column), width) in enumerate(zip(cells, shown, widths, strict=True)):
            text = fitted[at][number] if number < len(fitted[at]) else ""
            padding = Cell(" " * max(width - _length(text), 0))
            gap = [Cell(_GAP)] if at else []
            pieces += [
                *gap,
                *([padding, Cell(text, cell.style)] if column.is_number else [Cell(text, cell.style), padding]),
            ]
    return Line(pieces)


def _fitted(text: str, column: Column, width: int) -> list[str]:
    if _length(text) <= width:
        return [text]
    if column.wraps:
        return wrapped(text, width).split("\n")
    from rich.cells import set_cell_size

    if column.keeps_end:
        return ["…" + set_cell_size(text[::-1], width - 1)[::-1]]
    return [set_cell_size(text, width - 1) + "…"]
