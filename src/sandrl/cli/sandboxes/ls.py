"""`sandrl sandboxes ls`: lists sandboxes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.output import Json
from sandrl.cli.sandboxes.options import (
    Job,
    OlderThan,
    Orphans,
    Runtime,
    StatusName,
    Tags,
    open_inventory,
    remark_unreached,
)
from sandrl.cli.units import time_option
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandrl.sandboxes.listing import OwnedSandbox
    from sandrl.sandboxes.providers.protocol import UnreachableNode


class Format(StrEnum):
    """How sandboxes are shown."""

    TABLE = "table"
    JSON = "json"
    WIDE = "wide"


def ls(
    tag: Tags = None,
    job: Job = None,
    status: Annotated[
        list[StatusName] | None, typer.Option("--status", "-s", help="Select sandboxes with this status; repeatable.")
    ] = None,
    orphans: Orphans = False,
    older_than: OlderThan = None,
    all_: Annotated[bool, typer.Option("--all", help="Also list sandboxes that have ended.")] = False,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="Format: table, table with all columns (`wide`), or JSON.")
    ] = (Format.TABLE),
    json_: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat the list until Ctrl-C.")] = False,
    interval: Annotated[float, time_option(help="Interval of --watch.", least=0.1)] = 2.0,
    runtime: Runtime = RuntimeKind.AUTO.value,
) -> None:
    """List the sandboxes of the runtime, also those that sandrl did not create."""
    from sandrl.cli.sandboxes import watching
    from sandrl.sandboxes.listing import Owners, SandboxSelection, list_sandboxes
    from sandrl.settings import load_settings

    selection = SandboxSelection(tuple(tag or ()), frozenset(map(str, status or ())), orphans, older_than, all_, job)
    format_ = Format.JSON if json_ else output
    settings = load_settings()

    unreached: list[UnreachableNode] = []

    def look(*, quiet: bool = False) -> list[OwnedSandbox]:
        inventory = open_inventory(settings, runtime, quiet=quiet)
        if inventory is None:
            return []
        listed = list_sandboxes(inventory, selection, Owners(settings.state_dir))
        unreached[:] = inventory.unreached
        if not quiet:
            remark_unreached(unreached)
        return listed

    def gaps() -> str:
        return f"not asked: {', '.join(each.node for each in unreached)}" if unreached else ""

    def show(listed: Sequence[OwnedSandbox]) -> None:
        _show(listed, format_, unreached)

    if watch:
        watching.watch(look, show, interval, live=format_ is not Format.JSON, gaps=gaps)
    else:
        show(look())


def _show(listed: Sequence[OwnedSandbox], format_: Format, unreached: Sequence[UnreachableNode]) -> None:
    from sandrl.cli.output import print_json
    from sandrl.cli.sandboxes.documents import listing_document
    from sandrl.cli.sandboxes.table import print_table

    if format_ is Format.JSON:
        print_json(listing_document(listed, unreached))
    else:
        print_table(listed, wide=format_ is Format.WIDE)
