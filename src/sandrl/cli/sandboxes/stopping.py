"""The output while sandboxes are being stopped: a progress bar on a terminal, else only remarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from sandrl.cli.text import visible
from sandrl.events import Emit, Event, StopFinished, StopRequested


@contextmanager
def stopping(total: int) -> Iterator[Emit]:
    """Shows the stops of so many sandboxes on standard error."""
    if not (total and sys.stderr.isatty()):
        yield _remark
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("Stopping"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failures]}"))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        task = progress.add_task("", total=total, failures="")
        failed = 0

        def show(event: Event) -> None:
            nonlocal failed
            if isinstance(event, StopFinished):
                failed += event.outcome == "failed"
                progress.update(task, completed=event.finished, failures=f"{failed} failed" if failed else "")
            elif isinstance(event, StopRequested):
                progress.console.print(_words(event), markup=False)

        yield show


def _remark(event: Event) -> None:
    if isinstance(event, StopRequested):
        typer.echo(visible(_words(event)), err=True)


def _words(event: StopRequested) -> str:
    if event.cancel:
        return f"not waiting for {event.in_flight} stops in progress"
    return f"finishing {event.in_flight} stops in progress, starting no more; Ctrl-C again does not wait for them"
