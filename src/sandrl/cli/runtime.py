"""`sandrl runtime`: shows, starts and stops the local runtime."""

from __future__ import annotations

from typing import Annotated

import typer

from sandrl.cli.units import time_option

app = typer.Typer(name="runtime", help="The local runtime: status, serve, stop, logs.", no_args_is_help=True)


@app.command("status")
def status(json_: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> None:
    """Show the local runtime: state, isolation, sandboxes, images."""
    from dataclasses import asdict

    from sandrl.cli.output import print_json
    from sandrl.cli.tables import print_fields
    from sandrl.runtime import daemon
    from sandrl.settings import load_settings

    found = daemon.status(load_settings().state_dir)
    if json_:
        print_json(asdict(found))
        return
    if not found.running:
        typer.echo("The local runtime is not running; commands start it when they need it.")
        return
    idle = "never stops when idle"
    if found.idle_timeout_seconds is not None:
        idle = f"stops after {found.idle_timeout_seconds:g} s idle"
    lines = {
        "running": f"pid {found.pid} at {found.base_url}, for {found.uptime_seconds:.0f} s; {idle}",
        "version": found.version,
        "isolation": f"{found.isolation} ({found.isolation_detail})",
        "condition": ("" if found.is_well else "NOT WORKING: ") + (found.condition or "works"),
        "host users": found.host_users,
        "sandboxes": f"{found.sandboxes} running; suggested concurrency {found.suggested_concurrency}",
        "images": ", ".join(found.images),
        "default": found.default_image,
    }
    print_fields([*lines.items()])


@app.command("serve")
def serve(
    idle_timeout: Annotated[
        float | None,
        time_option("--idle-timeout", help="Stop after this idle time; default: never.", least=1),
    ] = None,
    max_sandboxes: Annotated[
        int | None,
        typer.Option("--max-sandboxes", metavar="N", min=1, help="Maximum number of sandboxes at the same time."),
    ] = None,
) -> None:
    """Run the local runtime in the foreground and print the variables that connect a cwsandbox program to it."""
    from sandrl.runtime import daemon
    from sandrl.settings import load_settings

    def announce(endpoint: daemon.DaemonEndpoint) -> None:
        typer.echo(f"export CWSANDBOX_BASE_URL={endpoint.base_url}")
        typer.echo(f"export CWSANDBOX_API_KEY={endpoint.token}")
        typer.echo(f"The local runtime serves {endpoint.base_url} (pid {endpoint.pid}).", err=True)

    daemon.serve(
        load_settings().state_dir, idle_timeout_seconds=idle_timeout, max_sandboxes=max_sandboxes, announce=announce
    )


@app.command("stop")
def stop() -> None:
    """Stop the local runtime and all of its sandboxes."""
    from sandrl.runtime import daemon
    from sandrl.settings import load_settings

    stopped = daemon.stop(load_settings().state_dir)
    typer.echo("The local runtime is stopped." if stopped else "The local runtime was not running.")


@app.command("logs")
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=1, help="Show the last N lines.")] = 100,
    path: Annotated[bool, typer.Option("--path", help="Print the path of the log file instead.")] = False,
) -> None:
    """Show the last lines of the local runtime's log."""
    from collections import deque

    from sandrl.cli.text import visible
    from sandrl.runtime import daemon
    from sandrl.settings import load_settings

    file = daemon.log_path(load_settings().state_dir)
    if path:
        typer.echo(file)
        return
    if not file.exists():
        typer.echo("There is no log yet.", err=True)
        return
    with file.open(encoding="utf-8", errors="replace") as log:
        for line in deque(log, maxlen=lines):
            typer.echo(visible(line))
