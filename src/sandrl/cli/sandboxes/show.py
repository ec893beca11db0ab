"""`sandrl sandboxes show` and `count`: the details of one sandbox, and the numbers of active ones."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.output import Json, print_json
from sandrl.cli.sandboxes.options import Id, Job, Runtime, Tags, inventory_with, open_inventory, remark_unreached
from sandrl.cli.sandboxes.table import expiry, sandbox_document, span, unreached_document
from sandrl.cli.tables import Column, Table, print_fields
from sandrl.cli.text import visible
from sandrl.settings import RuntimeKind, load_settings

if TYPE_CHECKING:
    from sandrl.sandboxes.listing import OwnedSandbox


def show(id_: Id, json_: Json = False, runtime: Runtime = RuntimeKind.AUTO.value) -> None:
    """Show one sandbox: its status, times, job, owner, tags, image and limits."""
    from sandrl.sandboxes.listing import Owners

    settings = load_settings()
    now = datetime.now(UTC)
    inventory = inventory_with(settings, runtime, id_)
    found = inventory.get(inventory.find(id_))
    listed = Owners(settings.state_dir).describe(found, now)
    if json_:
        print_json(sandbox_document(listed, now))
    else:
        _print(listed, now)


def count(
    tag: Tags = None,
    job: Job = None,
    by_tag: Annotated[bool, typer.Option("--by-tag", help="Also count for each tag.")] = False,
    json_: Json = False,
    runtime: Runtime = RuntimeKind.AUTO.value,
) -> None:
    """Count active sandboxes: running, pending, and in total."""
    from sandrl.sandboxes import listing

    settings = load_settings()
    inventory = open_inventory(settings, runtime)
    selection = listing.SandboxSelection(tags=tuple(tag or ()), job=job)
    listed = (
        [] if inventory is None else listing.list_sandboxes(inventory, selection, listing.Owners(settings.state_dir))
    )
    unreached = () if inventory is None else inventory.unreached
    remark_unreached(unreached)
    total = listing.count(listed)
    tags = listing.count_by_tag(listed) if by_tag else {}
    if json_:
        document = {**asdict(total), **unreached_document(unreached)}
        if by_tag:
            document["by_tag"] = {name: asdict(each) for name, each in tags.items()}
        print_json(document)
        return
    for name, number in asdict(total).items():
        typer.echo(f"{name:<8}{number:>7}")
    if tags:
        typer.echo()
        titles = ("RUNNING", "PENDING", "TOTAL")
        table = Table([*(Column(title, is_number=True) for title in titles), Column("TAG")])
        for name, each in tags.items():
            table.add(str(each.running), str(each.pending), str(each.total), visible(name))
        table.print()


def _print(listed: OwnedSandbox, now: datetime) -> None:

    sandbox, process = listed.sandbox, listed.process
    owner = "not created by sandrl" if listed.owner is None else listed.owner.value
    if process is not None:
        owner += f" (process {process.pid} on {process.host})"
    lines = {
        "id": sandbox.id,
        "status": sandbox.status + (f" ({sandbox.reason})" if sandbox.reason else ""),
        "exit code": "-" if sandbox.exit_code is None else str(sandbox.exit_code),
        "created": _time(sandbox.created_at, f"{span(sandbox.age_seconds(now))} ago"),
        "started": _time(sandbox.started_at),
        "ended": _time(sandbox.ended_at),
        "expires": "-" if sandbox.has_ended else _time(sandbox.expires_at, expiry(sandbox.expires_at, now)),
        "job": listed.job_id or "-",
        "owner": owner + (", orphan" if listed.is_orphan else ""),
        "tags": ", ".join(sandbox.tags) or "-",
        "image": sandbox.image or "-",
        "limits": ", ".join(f"{name} {value}" for name, value in sandbox.resources) or "-",
        "runner": sandbox.runner or "-",
    }
    print_fields([*lines.items()])


def _time(moment: datetime | None, remark: str = "") -> str:
    if moment is None:
        return "-"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" + (f" ({remark})" if remark else "")
