"""`--watch`: repeats a list.

Ctrl-C is the normal end, so the exit code is then 0, as of `watch(1)`. If a service temporarily does not answer, the
problem is shown and the list is requested again; only the first request must succeed.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import typer

from sandrl.cli import signals
from sandrl.cli.sandboxes.table import table
from sandrl.cli.text import visible
from sandrl.errors import InterruptedRunError, ServiceError

if TYPE_CHECKING:
    from sandrl.sandboxes import Interrupt
    from sandrl.sandboxes.listing import OwnedSandbox


class Look(Protocol):
    """Finds out which sandboxes there are; told whether to leave remarks out."""

    def __call__(self, *, quiet: bool = False) -> list[OwnedSandbox]:
        """Looks once."""


def watch(
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
