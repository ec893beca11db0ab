"""`sandrl runs export` and `import`: trajectories of runs for other programs, and runs of other programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli import runs
from sandrl.cli.completion import values
from sandrl.cli.output import Json, print_json
from sandrl.cli.text import visible
from sandrl.settings import load_settings

if TYPE_CHECKING:
    from sandrl.events import Event


def export(
    name: runs.RunArgument = runs.LATEST,
    *,
    directory: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Output directory; must not exist or must be empty.")
    ],
    runs_dir: runs.RunsDirOption = None,
) -> None:
    """Write the completions of a run as documents of ATIF, a format of trajectories that Harbor and others read."""
    from sandrl.runs.atif import export_run

    reader, _ = runs.open_run(name, runs_dir)
    exported = export_run(reader, directory)
    runs.tell_damage(exported.damage)
    typer.echo(f"{visible(reader.config.run_id)}: {exported.documents} trajectories", err=True)
    typer.echo(str(directory))


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A document of ATIF, a .jsonl file or a directory of documents, or a job, jobs or a trial of Harbor.",
        ),
    ],
    *,
    problems: Annotated[
        str | None,
        typer.Option(
            "--problems",
            metavar="SOURCE",
            help="The tasks that were worked on, so that what has their artifacts can be judged again.",
            autocompletion=values.problem_sets,
        ),
    ] = None,
    run_name: Annotated[str | None, typer.Option("--run-name", metavar="NAME", help="Name of the run.")] = None,
    runs_dir: Annotated[
        Path | None, typer.Option("--runs-dir", metavar="DIR", help="Where the run is saved; default: ./runs.")
    ] = None,
    json_: Json = False,
) -> None:
    """Make a run of trajectories of another program, with the rewards that it gave; nothing is judged."""
    from sandrl.cli.progress import remark
    from sandrl.rewards.importing import import_run

    def tell(event: Event) -> None:
        if text := remark(event):
            typer.echo(text, err=True)

    made = import_run(source, load_settings(), problems=problems, name=run_name, runs_dir=runs_dir, emit=tell)
    if json_:
        print_json({"run_id": made.path.name, **asdict(made), "path": str(made.path)})
        return
    without = f", {made.unrewarded} without a reward" if made.unrewarded else ""
    again = f", {made.judgeable} can be judged again" if made.judgeable else ""
    typer.echo(f"{visible(made.path.name)}: {made.completions} trajectories{without}{again}", err=True)
    typer.echo(str(made.path))
