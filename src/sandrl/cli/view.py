"""`sandrl view`: shows all runs in the browser, live while they are written, or exports them as files."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated

import typer

from sandrl.cli.completion import values

_LOOK_SECONDS = 0.5


def view(
    runs_dir: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUNS_DIR]", help="Show only the runs of this directory; default: ./runs and all indexed runs."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Open the page of this run.", autocompletion=values.run_names),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65535, help="Port to listen on; 0: any free port."),
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="DIR", help="Write the pages as static files into this directory, and exit."),
    ] = None,
) -> None:
    """Show runs in the browser (curves, groups, trajectories, comparisons), on this machine only, until Ctrl-C."""
    from pathlib import Path

    from sandrl.cli import signals
    from sandrl.errors import UsageError
    from sandrl.sandboxes import Interrupt
    from sandrl.settings import load_settings
    from sandrl.viewer.server import make_library, serving

    if export is not None and (port is not None or no_open):
        raise UsageError("--export starts no server, so it cannot be used with --port or --no-open")
    settings = load_settings()
    library = make_library(settings, None if runs_dir is None else Path(runs_dir))
    key = None if run is None else library.key_of(run)
    if export is not None:
        from sandrl.viewer.export import write_export

        with library:
            written = write_export(library, Path(export), only=key)
        typer.echo(written.index)
        if written.left_out:
            typer.echo(f"warning: skipped runs that cannot be read: {', '.join(written.left_out)}", err=True)
        return
    if not library.entries():
        typer.echo("There are no runs yet; they will appear on the page.", err=True)
    interrupt = Interrupt()
    with signals.passed_to(interrupt), serving(library, port) as viewer, interrupt.heard():
        link = viewer.link if key is None else f"{viewer.link}#/run/{key}"
        typer.echo(f"Showing runs on {link}")
        typer.echo("Press Ctrl-C to stop.", err=True)
        if not no_open and sys.stdout.isatty():
            _open(link)
        while not interrupt.level:
            with suppress(TimeoutError):
                interrupt.waker().result(_LOOK_SECONDS)
            viewer.check()


def _open(link: str) -> None:
    import os
    import webbrowser

    # Without a desktop there may be a browser for the terminal, which would take the terminal away.
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(link)
