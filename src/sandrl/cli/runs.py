"""`sandrl runs`: lists, shows, compares and removes the runs on disk."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sandrl.cli.completion import values
from sandrl.cli.output import Json
from sandrl.cli.text import human_size, share_text
from sandrl.events.results import Status

if TYPE_CHECKING:
    from pathlib import Path

    from sandrl.events import Event
    from sandrl.runs import RunReader
    from sandrl.runs.index import RunEntry
    from sandrl.runs.overview import RunOverview
    from sandrl.runs.reader import Damage, Rows

app = typer.Typer(
    name="runs",
    help="Runs on disk: ls, show, compare, tail, report, regrade, export, import, sync, rm.",
    no_args_is_help=True,
)

_RUN = "The run: its name, path or job id, or a unique prefix of its name or id."
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]", help=f"{_RUN} Default: the latest run.", show_default=False, autocompletion=values.run_names
    ),
]
RunsDirOption = Annotated[
    "str | None",
    typer.Option("--runs-dir", metavar="DIR", help="Also search this directory for runs; default: ./runs."),
]
LATEST = "latest"
_ROWS_SHOWN = 20
_NAMES_SHOWN = 20
_STATE_STYLES = {"running": "cyan", "finished": "green", "interrupted": "yellow", "damaged": "magenta"}


@app.command("ls")
def list_runs(
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"Show only the newest N; default: {_ROWS_SHOWN}; with --json: all."),
    ] = None,
    json_: Json = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """List runs, newest first: model, problems, pass@1 with its 95% interval, unscorable completions, state."""
    from sandrl.cli.output import print_json
    from sandrl.runs import index
    from sandrl.runs.overview import overviews
    from sandrl.settings import load_settings

    settings = load_settings()
    entries = index.list_runs(settings.state_dir, _directory(runs_dir) or settings.runs_dir)
    shown = overviews(entries[: limit or (None if json_ else _ROWS_SHOWN)])
    if json_:
        print_json({"n": len(entries), "runs": [_document(run) for run in shown]})
        return
    if not entries:
        typer.echo("There are no runs yet; create one, for example with sandrl reward", err=True)
        return
    _print_runs(shown)
    if len(shown) < len(entries):
        typer.echo(f"… and {len(entries) - len(shown)} older runs; show more with --limit N", err=True)


@app.command("show")
def show(
    run: RunArgument = LATEST,
    failed: Annotated[bool, typer.Option("--failed", help="Show only completions that did not pass.")] = False,
    status: Annotated[
        list[Status] | None, typer.Option("--status", "-s", help="Show only this status; repeatable.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="Show only the problem with this id.")
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Show only the completion with this id or unique prefix of an id."),
    ] = None,
    step: Annotated[int | None, typer.Option("--step", metavar="N", min=0, help="Show only this step.")] = None,
    disagreements: Annotated[
        bool,
        typer.Option(
            "--disagreements", help="Show only failed completions that pass in one process (--second-opinion)."
        ),
    ] = False,
    truncated: Annotated[
        bool, typer.Option("--truncated", help="Show only completions that were cut off at the token limit.")
    ] = False,
    held_out: Annotated[
        bool | None,
        typer.Option("--held-out/--training", help="Show only completions of evaluations, or only those of training."),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="REGEX", help="Show only trajectories that match this pattern, ignoring case."),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Show at most N.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not cut long texts.")] = False,
    json_: Json = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Show the trajectories of a run: messages, code, output, verdict."""
    from itertools import chain, islice

    from sandrl.cli import pager, trajectories
    from sandrl.cli.output import print_json
    from sandrl.errors import InputError
    from sandrl.prefixes import find_id
    from sandrl.runs import step_rows
    from sandrl.runs.explanations import failed_checks
    from sandrl.runs.flags import flags_of
    from sandrl.runs.held import held_by
    from sandrl.runs.overview import overview
    from sandrl.runs.reader import Damage
    from sandrl.runs.selection import RowSelection
    from sandrl.runs.series import series_of

    reader, entry = open_run(run, runs_dir)
    damage = Damage()
    wanted = None
    if id_ is not None:
        wanted = find_id(id_, (row.id for row in reader.each_trajectory()), noun="completion")
        if wanted is None:
            raise InputError(f"the run has no completion {id_!r}", hint=f"show all completions: sandrl runs show {run}")
    selection = RowSelection(
        failed, tuple(status or ()), task, step, held_out, grep, limit, disagreements, wanted, truncated
    )
    chosen = selection.choose(reader.each_trajectory(damage))
    flags = flags_of(series_of(step_rows(reader)))
    problems = reader.problems()
    if json_:
        rows = [
            {
                **row.model_dump(mode="json", by_alias=True),
                "why": [asdict(check) for check in failed_checks(row, problems)],
            }
            for row in chosen
        ]
        tell_damage(damage)
        asked = {str(row["problem"]) for row in rows}
        answered = {key: each.model_dump(mode="json", by_alias=True) for key, each in problems.items() if key in asked}
        document = {"run_id": reader.config.run_id, "path": str(reader.path), "n": len(rows), "trajectories": rows}
        document |= {"problems": answered, "held": held_by(reader).document()}
        print_json({**document, "flags": [asdict(flag) for flag in flags]})
        return
    opinions = [row.opinion for row in reader.opinions().rows]
    # What keeps the run from being read is said before anything is shown.
    first = list(islice(chosen, 1))
    everything, shown = chain(first, chosen), overview(entry, has_held=True)
    pager.print_paged(trajectories.pieces(shown, opinions, everything, problems, flags=flags, full=full))
    tell_damage(damage)
    if not first:
        total = sum(1 for _ in reader.each_trajectory())
        why = f"the options match 0 of {total}" if total else "the run has no trajectories yet"
        if disagreements and total and not opinions:
            why = "the run has no second opinions; score with --second-opinion RATE to get them"
        typer.echo(f"No trajectory to show: {why}.", err=True)


@app.command("compare")
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="The runs, the baseline first: names, paths or job ids; RUN@STEP selects one evaluation of a training"
            " run.",
            autocompletion=values.run_names,
        ),
    ],
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Name at most N problems of each list; --json names all.")
    ] = _NAMES_SHOWN,
    json_: Json = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Compare runs with the first one: configuration, pass@1, paired differences with 95% intervals, problems."""
    from sandrl.cli import comparison
    from sandrl.cli.output import print_json
    from sandrl.errors import InputError, UsageError
    from sandrl.runs.comparison import compare as compare_runs
    from sandrl.runs.comparison import comparison_document

    if len(names) < 2:
        raise UsageError(
            "a comparison needs at least two runs", hint="name them, the baseline first: sandrl runs compare A B"
        )
    found = compare_runs(comparison.sources(names, runs_dir))
    if not any(pairing.common for pairing in found.pairings):
        raise InputError(comparison.why_not(found), hint="compare runs of the same problem set")
    if json_:
        print_json(comparison_document(found))
    else:
        comparison.print_comparison(found, limit)
    comparison.print_warnings(found)


@app.command("report")
def report(
    run: RunArgument = LATEST,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Output file; default: report.html in the run directory."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Write a run as one HTML file that works without a network: curves, groups, every trajectory."""
    from sandrl.runs.reader import Damage
    from sandrl.runs.report import write_report

    reader, _ = open_run(run, runs_dir)
    damage = Damage()
    path = write_report(reader, _directory(out), damage=damage).absolute()
    tell_damage(damage)
    typer.echo(path)
    if open_:
        import webbrowser

        if not webbrowser.open(path.as_uri()):
            typer.echo("note: no browser was found to open the report", err=True)


@app.command("sync")
def sync(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help=_RUN, autocompletion=values.run_names)],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="NAME,…",
            help="Trackers: wandb, tensorboard, mlflow, trackio; default: those of the run's --report-to, or wandb.",
            autocompletion=values.trackers,
        ),
    ] = None,
    log_completions: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Also send tables of completions of every N-th step and each evaluation; default: as the run did.",
        ),
    ] = 0,
    json_: Json = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Send runs to trackers, such as W&B: each step is there once, also if a part was sent before."""
    from sandrl.cli.output import print_json
    from sandrl.cli.progress import remark
    from sandrl.cli.text import visible
    from sandrl.runs.trackers import sync_run, trackers_of
    from sandrl.settings import load_settings

    found = [open_run(name, runs_dir)[0] for name in dict.fromkeys(names)]
    chosen = [(reader, tracker) for reader in found for tracker in trackers_of(reader, to)]
    synced = []

    def tell(event: Event) -> None:
        if text := remark(event):
            typer.echo(text, err=True)

    for reader, tracker in chosen:
        each = sync_run(reader, tracker, load_settings(), every=log_completions, emit=tell)
        synced.append({"run_id": reader.config.run_id, **asdict(each)})
        if not json_:
            typer.echo(f"{visible(reader.config.run_id)}: {each.steps} steps in {each.title}: {visible(each.place)}")
    if json_:
        print_json({"n": len(synced), "synced": synced})


@app.command("rm")
def remove(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help=_RUN, autocompletion=values.run_names)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    runs_dir: RunsDirOption = None,
) -> None:
    """Delete runs and all of their files. Refuses a run whose job is still running."""
    from sandrl.cli.text import visible
    from sandrl.errors import UsageError
    from sandrl.runs.index import remove_run
    from sandrl.runs.overview import overviews
    from sandrl.settings import load_settings

    found = overviews([open_run(name, runs_dir)[1] for name in dict.fromkeys(names)])
    alive = [run for run in found if run.state == "running"]
    if alive:
        raise UsageError(
            f"the job of {visible(alive[0].run_id)} is running; nothing was removed", hint="stop the job first"
        )
    if not yes:
        _print_runs(found)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            words = " ".join(names)
            raise UsageError(
                "cannot ask for confirmation: standard input or output is not a terminal",
                hint=f"sandrl runs rm {words} --yes",
            )
        if not typer.confirm(f"Remove {len(found)} run{'s' * (len(found) > 1)}?"):
            typer.echo("Nothing was removed.", err=True)
            return
    for run in found:
        remove_run(run.path, load_settings().state_dir)
        typer.echo(f"Removed {run.path}")


def open_run(name: str, runs_dir: str | None) -> tuple[RunReader, RunEntry]:
    """Finds a run and opens it; also returns its entry as the index has it.

    Raises:
        InputError: If there is no such run.
    """
    from sandrl.runs import RunReader, find_run
    from sandrl.runs.index import RunEntry
    from sandrl.settings import load_settings

    settings = load_settings()
    path = find_run(name, settings.state_dir, _directory(runs_dir) or settings.runs_dir)
    reader = RunReader(path)
    jobs = reader.config.jobs
    started_at = jobs[-1].started_at if jobs else reader.config.created_at
    return reader, RunEntry(path.name, path, started_at)


def tell_damage(*reads: Rows[Any] | Damage) -> None:
    """Says on standard error what of a run could not be read."""
    from sandrl.cli.text import visible

    if any(read.is_truncated for read in reads):
        typer.echo("note: skipped the last row: it is incomplete (its writer was killed or is still writing)", err=True)
    damaged = [error for read in reads for error in read.damaged]
    if damaged:
        typer.echo(f"warning: {len(damaged)} rows cannot be read; the first: {visible(damaged[0].message)}", err=True)


def _directory(text: str | None) -> Path | None:
    from pathlib import Path

    return None if text is None else Path(text)


def _document(run: RunOverview) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "path": str(run.path),
        "command": run.command,
        "state": run.state.value,
        "started_at": run.started_at.isoformat(),
        "steps": run.steps,
        "completions": run.completions,
        "reward_mean": run.reward_mean,
        "pass_rate": run.pass_rate,
        "pass_at_1": None if run.pass_at_1 is None else asdict(run.pass_at_1),
        "unscorable": run.unscorable,
        "model": run.subject,
        "source": run.source,
        "best_checkpoint": None if run.best is None else {"step": run.best.step, "path": str(run.best.path)},
        "size_bytes": run.size_bytes,
    }


def _print_runs(runs: list[RunOverview]) -> None:
    from sandrl.cli.tables import Cell, Column, Table
    from sandrl.cli.text import visible

    table = Table(
        [
            Column("run"),
            Column("model", least=10, keeps_end=True),
            Column("problems", least=9, keeps_end=True),
            Column("pass@1"),
            Column("state"),
            Column("command", rank=4),
            Column("age", rank=3, is_number=True),
            Column("n", rank=2, is_number=True),
            Column("reward", rank=1, is_number=True),
            Column("size", rank=5, is_number=True),
        ]
    )
    for run in runs:
        style = _STATE_STYLES.get(run.state.value, "red")
        state = Cell(run.state.value, style)
        if run.unscorable:
            # What finished without some of its rewards is no success.
            state = Cell(f"{state.text}, {run.unscorable} unscorable", "yellow" if style == "green" else style)
        table.add(
            visible(run.run_id),
            name_of(run.subject),
            name_of(run.source),
            "-" if run.pass_at_1 is None else share_text(**asdict(run.pass_at_1)),
            state,
            visible(run.command),
            age(run.started_at),
            str(run.completions),
            "-" if run.reward_mean is None else f"{run.reward_mean:.3f}",
            human_size(run.size_bytes),
        )
    table.print()


def name_of(text: str | None) -> str:
    """A model, a problem set or a file in a table; of a path, the end that tells it apart."""
    from pathlib import PurePath

    from sandrl.cli.text import visible

    if not text:
        return "-"
    parts = PurePath(text).parts
    return visible("/".join(parts[-2:]) if len(parts) > 2 else text)


def age(moment: datetime) -> str:
    """How long ago something was, in its largest unit."""
    seconds = max((datetime.now(UTC) - moment).total_seconds(), 0.0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
