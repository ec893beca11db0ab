"""`sandrl sandboxes ls`: lists sandboxes, with `--watch` again and again.

Ctrl-C is the normal end of `--watch`, so the exit code is then 0, as of `watch(1)`. If a service temporarily does not
answer, the problem is shown and the list is requested again; only the first request must succeed.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from sandrl.cli import signals
from sandrl.cli.output import Json, print_json
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
from sandrl.cli.sandboxes.table import listing_document, print_table, table
from sandrl.cli.text import visible
from sandrl.cli.units import time_option
from sandrl.errors import InterruptedRunError, ServiceError
from sandrl.settings import RuntimeKind, load_settings

if TYPE_CHECKING:
    from sandrl.sandboxes import Interrupt
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
    from sandrl.sandboxes.listing import Owners, SandboxSelection, list_sandboxes

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
        repeat(look, show, interval, live=format_ is not Format.JSON, gaps=gaps)
    else:
        show(look())


def _show(listed: Sequence[OwnedSandbox], format_: Format, unreached: Sequence[UnreachableNode]) -> None:

    if format_ is Format.JSON:
        print_json(listing_document(listed, unreached))
    else:
        print_table(listed, wide=format_ is Format.WIDE)


class Look(Protocol):
    """Finds out which sandboxes there are; told whether to leave remarks out."""

    def __call__(self, *, quiet: bool = False) -> list[OwnedSandbox]:
        """Looks once."""


def repeat(
    look: Look,
    show: Callable[[Sequence[OwnedSandbox]], None],
    interval_seconds: float,
    *,
    live: bool,
    gaps: Callable[[], str] = lambda: "",
) -> None:
    """Shows what a look finds until Ctrl-C: in place on a terminal (`live`), one after the other elsewhere.

    `gaps` says what the latest look could not see, in a few words; empty if it saw everything.
    """
    from sandrl.sandboxes import Interrupt

    interrupt = Interrupt()
    try:
        with signals.passed_to(interrupt):
            if live and sys.stdout.isatty():
                _in_place(look, interval_seconds, interrupt, gaps)
            else:
                _repeated(look, show, interval_seconds, interrupt, gaps)
    except InterruptedRunError as ended:
        if ended.signal_number != signal.SIGINT:
            raise
        return
    if interrupt.signal_number != signal.SIGINT:
        raise InterruptedRunError("interrupted", signal_number=interrupt.signal_number)


def _repeated(
    look: Look,
    show: Callable[[Sequence[OwnedSandbox]], None],
    interval_seconds: float,
    interrupt: Interrupt,
    gaps: Callable[[], str],
) -> None:
    listed, known_gaps = look(), gaps()
    while not interrupt.level:
        show(listed)
        sys.stdout.flush()
        time.sleep(interval_seconds)
        try:
            listed = look(quiet=True)
        except ServiceError as error:
            typer.echo(f"sandrl: {visible(error.message)}; trying again", err=True)
        if gaps() != known_gaps:
            known_gaps = gaps()
            typer.echo(f"sandrl: {visible(known_gaps or 'all answer again')}", err=True)
        typer.echo()


def _in_place(look: Look, interval_seconds: float, interrupt: Interrupt, gaps: Callable[[], str]) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    listed, trouble = look(quiet=True), ""
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        while not interrupt.level:
            laid_out = table(listed, width=console.size.width)
            room = max(console.size.height - 3, 1)
            orphans = sum(each.is_orphan for each in listed)
            foot = f"{len(listed)} sandboxes, {orphans} orphans, {datetime.now():%H:%M:%S} {visible(trouble or gaps())}"
            # A row may have two lines, where ids are long.
            room //= len(str(laid_out.header).split("\n"))
            lines = [laid_out.header.styled("bold")]
            for each, row in list(zip(listed, laid_out.rows, strict=True))[-max(room, 1) :]:
                lines.append(row.styled("red" if each.is_orphan else ""))
            live.update(Group(*lines, Text(foot, style="dim", overflow="ellipsis", no_wrap=True)), refresh=True)
            time.sleep(interval_seconds)
            try:
                listed, trouble = look(quiet=True), ""
            except ServiceError as error:
                trouble = error.message
