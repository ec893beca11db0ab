"""`sandrl sandboxes cleanup`: shows the selected sandboxes and stops them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli import signals
from sandrl.cli.completion import values
from sandrl.cli.output import Json, print_json
from sandrl.cli.sandboxes.options import OlderThan, Orphans, Runtime, Tags, open_inventory, remark_unreached
from sandrl.cli.sandboxes.table import plan_document, print_table, report_document
from sandrl.cli.text import counted, visible
from sandrl.errors import UsageError
from sandrl.events import Emit, Event, StopFinished, StopRequested
from sandrl.settings import RuntimeKind, load_settings

if TYPE_CHECKING:
    from sandrl.sandboxes.cleanup import CleanupPlan, CleanupReport

_MOST_ROWS = 20
_MOST_FAILURES = 10


def cleanup(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID", help="Sandboxes to stop: ids or unique prefixes of ids.", autocompletion=values.sandbox_ids
        ),
    ] = None,
    tag: Tags = None,
    orphans: Orphans = False,
    older_than: OlderThan = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Select all sandboxes, also those that sandrl did not create.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Also stop sandboxes whose owner is alive.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the sandboxes that would be stopped, and exit.")
    ] = False,
    json_: Json = False,
    runtime: Runtime = RuntimeKind.AUTO.value,
) -> None:
    """Stop sandboxes, except those whose owner is alive. Exits with 4 if a sandbox could not be stopped."""
    from sandrl.sandboxes import Interrupt
    from sandrl.sandboxes.cleanup import CleanupRequest, clean_up, plan_cleanup
    from sandrl.sandboxes.listing import Owners, SandboxSelection

    settings = load_settings()
    inventory = open_inventory(settings, runtime)
    request = CleanupRequest(
        ids=tuple(each if inventory is None else inventory.find(each) for each in ids or ()),
        selection=SandboxSelection(tags=tuple(tag or ()), orphans=orphans, older_than_seconds=older_than),
        everything=all_,
        force=force,
        options=() if runtime == RuntimeKind.AUTO else ("--runtime", runtime),
    )
    owners = Owners(settings.state_dir)
    plan = plan_cleanup(inventory, request, owners)
    remark_unreached(plan.unreached)
    if dry_run and json_:
        print_json(plan_document(plan))
    else:
        _show_plan(plan, dry_run=dry_run)
    if dry_run:
        plan.raise_for_unreached()
        return
    if plan.targets and not yes:
        if not sys.stdin.isatty():
            asked = f"cannot ask for confirmation to stop {_sandboxes(len(plan.targets))}"
            raise UsageError(f"{asked}: standard input is not a terminal", hint=request.command())
        if not typer.confirm(f"Stop {_sandboxes(len(plan.targets))}?", default=False, err=True):
            typer.echo("Nothing was stopped.", err=True)
            return
    interrupt = Interrupt()
    with stopping(len(plan.targets)) as show, signals.passed_to(interrupt):
        report = clean_up(inventory, plan, owners, emit=show, interrupt=interrupt)
    if json_:
        print_json(report_document(report))
    else:
        _show_report(report)
    report.raise_for_outcome()


def _show_plan(plan: CleanupPlan, *, dry_run: bool) -> None:

    if plan.targets:
        print_table(plan.targets, most=None if dry_run else _MOST_ROWS, err=not dry_run)
    else:
        typer.echo("There is nothing to stop.", err=True)
    if plan.foreign:
        typer.echo(f"Not created by sandrl: {plan.foreign} of these.", err=True)
    if plan.spared:
        typer.echo(
            f"Not selected: {_sandboxes(len(plan.spared))} whose owner is alive (--force also stops them).", err=True
        )
    if dry_run:
        typer.echo(f"Would stop {_sandboxes(len(plan.targets))}.", err=True)


def _show_report(report: CleanupReport) -> None:

    for sandbox_id, message in report.failed[:_MOST_FAILURES]:
        typer.echo(f"{visible(sandbox_id)}: {visible(message)}", err=True)
    if len(report.failed) > _MOST_FAILURES:
        typer.echo(f"… and {len(report.failed) - _MOST_FAILURES} more failed", err=True)
    typer.echo(f"stopped {len(report.stopped)}, already ended {len(report.gone)}, failed {len(report.failed)}")


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


def _sandboxes(count: int) -> str:
    return counted(count, "sandbox", "sandboxes")
