"""How sandboxes are shown: as a table, of which a narrow terminal leaves columns out, and as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from sandrl.cli.tables import Column, Layout, Table
from sandrl.cli.text import visible

if TYPE_CHECKING:
    from sandrl.sandboxes.cleanup import CleanupPlan, CleanupReport
    from sandrl.sandboxes.listing import OwnedSandbox
    from sandrl.sandboxes.providers.protocol import UnreachableNode

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


def sandbox_document(listed: OwnedSandbox, at: datetime) -> dict[str, Any]:
    """One sandbox at a time; times are ISO 8601 in UTC."""
    sandbox = listed.sandbox
    age = sandbox.age_seconds(at)
    return {
        "id": sandbox.id,
        "status": sandbox.status,
        "reason": sandbox.reason,
        "age_seconds": None if age is None else round(age, 3),
        "created_at": _iso(sandbox.created_at),
        "started_at": _iso(sandbox.started_at),
        "ended_at": _iso(sandbox.ended_at),
        "expires_at": _iso(sandbox.expires_at),
        "job_id": listed.job_id,
        "owner": None if listed.owner is None else listed.owner.value,
        "orphan": listed.is_orphan,
        "process": None if listed.process is None else asdict(listed.process),
        "tags": list(sandbox.tags),
        "image": sandbox.image,
        "resources": dict(sandbox.resources),
        "runner": sandbox.runner,
        "exit_code": sandbox.exit_code,
    }


def listing_document(listed: Sequence[OwnedSandbox], unreached: Sequence[UnreachableNode] = ()) -> dict[str, Any]:
    """The document of `ls`; machines of the runtime that could not be asked are in it if there are any."""
    at = datetime.now(UTC)
    return {"sandboxes": [sandbox_document(each, at) for each in listed], **unreached_document(unreached)}


def unreached_document(unreached: Sequence[UnreachableNode]) -> dict[str, Any]:
    """What a document says of machines that could not be asked: nothing where all answered."""
    return {"unreached": [asdict(each) for each in unreached]} if unreached else {}


def plan_document(plan: CleanupPlan) -> dict[str, Any]:
    """The document of `cleanup --dry-run`."""
    return {
        "would_stop": [each.sandbox.id for each in plan.targets],
        "spared": [each.sandbox.id for each in plan.spared],
        "already_gone": list(plan.gone),
        **unreached_document(plan.unreached),
    }


def report_document(report: CleanupReport) -> dict[str, Any]:
    """The document of `cleanup`."""
    return {
        "stopped": list(report.stopped),
        "already_gone": list(report.gone),
        "failed": [{"id": sandbox_id, "error": message} for sandbox_id, message in report.failed],
        "left": list(report.left),
        "spared": [each.sandbox.id for each in report.plan.spared],
        **unreached_document(report.plan.unreached),
    }


def _table(listed: Sequence[OwnedSandbox], *, wide: bool) -> Table:
    now = datetime.now(UTC)
    columns = _WIDE_COLUMNS if wide else _COLUMNS
    rows = (cells_of(each, now, wide=wide) for each in listed)
    return Table(columns, [[cells[column.title] for column in columns] for cells in rows])


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
