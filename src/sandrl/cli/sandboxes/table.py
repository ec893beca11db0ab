"""The table of sandboxes: its columns, and the order in which a narrow terminal leaves them out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from sandrl.cli.tables import Column, Table
from sandrl.cli.text import visible

if TYPE_CHECKING:
    from sandrl.cli.tables import Layout
    from sandrl.sandboxes.listing import OwnedSandbox

_COLUMNS = (
    Column("ID"),
    Column("STATUS"),
    Column("AGE"),
    Column("EXPIRES", rank=3),
    Column("JOB", rank=2),
    Column("OWNER", rank=1),
    Column("TAGS", rank=4, least=12),
)
_WIDE_COLUMNS = tuple(Column(name) for name in (*(each.title for each in _COLUMNS), "IMAGE", "RUNNER", "PROCESS"))


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


def cells_of(listed: OwnedSandbox, now: datetime, *, wide: bool = False) -> dict[str, str]:
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


def table(listed: Sequence[OwnedSandbox], *, wide: bool = False, width: int | None = None) -> Layout:
    """Lays out sandboxes."""
    return _table(listed, wide=wide).lay_out(None if wide else width)


def print_table(
    listed: Sequence[OwnedSandbox], *, wide: bool = False, most: int | None = None, err: bool = False
) -> None:
    """Prints sandboxes: so many rows at most, the rest counted; with `wide` all there is to tell, and nothing cut."""
    shown = listed[:most]
    laid_out = _table(shown, wide=wide).print(err=err, whole=wide)
    if len(shown) < len(listed):
        typer.echo(f"… and {len(listed) - len(shown)} more", err=err)
    if laid_out.hidden:
        typer.echo(f"(no room for {', '.join(laid_out.hidden)}; -o wide shows all)", err=True)


def _table(listed: Sequence[OwnedSandbox], *, wide: bool) -> Table:
    now = datetime.now(UTC)
    columns = _WIDE_COLUMNS if wide else _COLUMNS
    rows = (cells_of(each, now, wide=wide) for each in listed)
    return Table(columns, [[cells[column.title] for column in columns] for cells in rows])
