"""`sandrl sandboxes count`: counts the active sandboxes."""

from __future__ import annotations

from typing import Annotated

import typer

from sandrl.cli.output import Json
from sandrl.cli.sandboxes.options import Job, Runtime, Tags, open_inventory, remark_unreached
from sandrl.settings import RuntimeKind


def count(
    tag: Tags = None,
    job: Job = None,
    by_tag: Annotated[bool, typer.Option("--by-tag", help="Also count for each tag.")] = False,
    json_: Json = False,
    runtime: Runtime = RuntimeKind.AUTO.value,
) -> None:
    """Count active sandboxes: running, pending, and in total."""
    from dataclasses import asdict

    from sandrl.cli.output import print_json
    from sandrl.cli.sandboxes.documents import unreached_document
    from sandrl.cli.tables import Column, Table
    from sandrl.cli.text import visible
    from sandrl.sandboxes import listing
    from sandrl.settings import load_settings

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
