"""`sandrl runtime`: shows, starts and stops the local runtime, and checks what a runtime promises."""

from __future__ import annotations

import itertools
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli import signals
from sandrl.cli.completion import values
from sandrl.cli.output import Json, print_json, say_waiting
from sandrl.cli.progress import remark
from sandrl.cli.tables import Cell, Column, Table, print_fields
from sandrl.cli.text import counted, visible
from sandrl.cli.units import time_option
from sandrl.errors import GateError, UsageError
from sandrl.events import Event
from sandrl.settings import RUNTIME_WORDS, load_settings, runtime_problem

if TYPE_CHECKING:
    from sandrl.runtime.state import DaemonEndpoint
    from sandrl.sandboxes.conformance import Outcome
    from sandrl.sandboxes.daemons import DaemonState

app = typer.Typer(name="runtime", help="Local runtimes: status, serve, stop, logs; check of any runtime.")


@app.command("status")
def status(json_: Json = False) -> None:
    """Show the local runtimes of all environments of this user: state, isolation, sandboxes, images."""
    from sandrl.sandboxes.daemons import describe_daemons

    own, others = describe_daemons(load_settings().state_dir, emit=say_waiting)
    if json_:
        print_json(
            {
                **asdict(own.status),
                "others": [
                    {**asdict(each.status), "environment": each.served.endpoint.environment, "problem": each.problem}
                    for each in others
                    if each.served is not None
                ],
            }
        )
    elif own.status.running:
        _print_status(own)
    elif own.problem is None:
        typer.echo("The local runtime is not running; commands start it when they need it.")
    if not json_:
        for each in others:
            typer.echo()
            _print_status(each)
    own.raise_for_problem()


def _print_status(described: DaemonState) -> None:
    found, served = described.status, described.served
    idle = "never stops when idle"
    if found.idle_timeout_seconds is not None:
        idle = f"stops after {found.idle_timeout_seconds:g} s idle"
    lines = {
        "running": f"pid {found.pid} at {found.base_url}, for {found.uptime_seconds:.0f} s; {idle}",
        "version": found.version,
        "environment": (served.endpoint.environment if served is not None else "") or "-",
    }
    if described.problem is not None:
        lines["running"] = f"pid {found.pid}"
        lines["condition"] = f"NOT WORKING: {described.problem}"
    else:
        lines |= {
            "isolation": f"{found.isolation} ({found.isolation_detail})",
            "condition": ("" if found.is_well else "NOT WORKING: ") + (found.condition or "works"),
            "host users": found.host_users,
            "sandboxes": f"{found.sandboxes} running; suggested concurrency {found.suggested_concurrency}",
            "images": f"{', '.join(found.images)}; {found.stored_images} stored (sandrl images ls)",
            "default": found.default_image,
        }
    if served is not None and served.jobs:
        lines["jobs"] = ", ".join(f"{job.command} ({job.job_id}, process {job.process.pid})" for job in served.jobs)
    print_fields([(name, visible(text)) for name, text in lines.items()])


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

    def announce(endpoint: DaemonEndpoint) -> None:
        typer.echo(f"export CWSANDBOX_BASE_URL={endpoint.base_url}")
        typer.echo(f"export CWSANDBOX_API_KEY={endpoint.token}")
        typer.echo(f"The local runtime serves {endpoint.base_url} (pid {endpoint.pid}).", err=True)

    daemon.serve(
        load_settings().state_dir, idle_timeout_seconds=idle_timeout, max_sandboxes=max_sandboxes, announce=announce
    )


@app.command("stop")
def stop(
    all_: Annotated[
        bool, typer.Option("--all", help="Also stop runtimes of other environments that serve running jobs.")
    ] = False,
) -> None:
    """Stop the local runtimes of all environments of this user, and their sandboxes.

    A runtime of another environment that serves a running job is stopped only with --all.
    """
    from sandrl.runtime import daemon
    from sandrl.sandboxes.daemons import served_daemons

    found = served_daemons(load_settings().state_dir)
    spared = [each for each in found if each.jobs and not each.is_own and not all_]
    stopped = [each for each in found if each not in spared]
    for each in stopped:
        daemon.stop_one(each.endpoint)
    if not any(each.is_own for each in stopped):
        typer.echo("The local runtime was not running.")
    for each in stopped:
        place = "" if each.is_own else f" of another environment ({each.place})"
        typer.echo(visible(f"The local runtime{place} is stopped."))
    for each in spared:
        typer.echo(visible(f"Not stopped: the local runtime {each.place} has {each.loss}; --all stops it."), err=True)


@app.command("logs")
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=1, help="Show the last N lines.")] = 100,
    path: Annotated[bool, typer.Option("--path", help="Print the paths of the log files instead.")] = False,
) -> None:
    """Show the last lines of the log of this environment's local runtime, and of each other one that runs."""
    from sandrl.runtime.state import RuntimeDirectory, find_all

    state_dir = load_settings().state_dir
    names = dict.fromkeys(["", *(each.name for each in find_all(state_dir))])
    files = [*dict.fromkeys(RuntimeDirectory(state_dir, name).log for name in names)]
    if path:
        typer.echo("\n".join(map(str, files)))
        return
    there = [file for file in files if file.exists()]
    if not there:
        typer.echo("There is no log yet.", err=True)
    for file in there:
        if len(there) > 1:
            typer.echo(visible(f"==> {file} <=="))
        with file.open(encoding="utf-8", errors="replace") as log:
            for line in deque(log, maxlen=lines):
                typer.echo(visible(line))


@app.command("check")
def check(
    runtime: Annotated[
        str,
        typer.Argument(
            metavar=RUNTIME_WORDS,
            help="The runtime whose provider is checked.",
            show_default=False,
            autocompletion=values.runtimes,
        ),
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="CHECK",
            help="Run this check alone; repeatable.",
            autocompletion=values.conformance_checks,
        ),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE", help="Image of the sandboxes, with `sh` and `python`; default: that of the runtime."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Check that a runtime keeps the protocol of providers, in sandboxes of its own. Exits with 1 if a check fails.

    The checks take about half a minute on a local runtime. Other sandboxes are not touched, and none is left behind.
    """
    from sandrl.sandboxes import Interrupt, connect
    from sandrl.sandboxes.conformance import Examination, State, find_checks

    if problem := runtime_problem(runtime):
        raise UsageError(f"the runtime {problem}")
    settings, checks, interrupt = load_settings(), find_checks(only or ()), Interrupt()
    outcomes: list[Outcome] = []
    try:
        with signals.passed_to(interrupt):
            connection = connect(settings, runtime=runtime, image=image, emit=_say)
            with (
                Examination(connection, settings, emit=_say, interrupt=interrupt) as examination,
                _progress(len(checks)) as tell,
            ):
                for each in checks:
                    tell(each.name)
                    outcomes.append(examination.run(each))
    finally:
        # What was found before an interruption is worth its time.
        if json_ and outcomes:
            rows = [asdict(each) for each in outcomes]
            print_json({"runtime": str(connection.kind), "image": connection.image, "checks": rows})
        elif outcomes:
            _print_outcomes(outcomes)
    count = Counter(each.state for each in outcomes)
    if count[State.FAILED]:
        failed = [each.name for each in outcomes if each.state is State.FAILED]
        again = " ".join(["sandrl runtime check", runtime, *(f"--only {name}" for name in failed)])
        raise GateError(
            f"runtime {runtime} fails {count[State.FAILED]} of {counted(len(outcomes), 'check')}",
            hint=f"{again} repeats what failed",
        )
    if not json_:
        typer.echo(f"passed {count[State.PASSED]}, failed 0, do not apply {count[State.ABSENT]}")


def _say(event: Event) -> None:
    if text := remark(event):
        typer.echo(visible(text), err=True)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Shows the check that runs, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("Checking"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        begun = itertools.count()
        task = progress.add_task("", total=total)
        yield lambda name: progress.update(task, description=name, completed=next(begun))


def _print_outcomes(outcomes: list[Outcome]) -> None:
    styles = {"passed": "green", "failed": "bold red", "does not apply": "dim"}
    table = Table([Column("check"), Column("result"), Column("what must hold, or the reason", least=30, wraps=True)])
    for each in outcomes:
        table.add(each.name, Cell(each.state, styles[each.state]), visible(each.reason or each.what))
    table.print()
