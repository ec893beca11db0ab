"""`sandrl init`: writes a folder for an own project."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from sandrl.cli.output import Json, print_json
from sandrl.cli.text import visible


def init(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder; it is created if it does not exist.")
    ] = Path("."),
    keep_existing: Annotated[
        bool, typer.Option("--keep-existing", help="Keep files that exist, and write only the others.")
    ] = False,
    json_: Json = False,
) -> None:
    """Write a folder for your own project: problems, a reward function with its test, a configuration, a CI job.

    Existing files are never overwritten: if one exists, the command writes nothing and exits with 2.
    """
    from sandrl.project import create_project

    project = create_project(directory, keep_existing=keep_existing)
    if json_:
        print_json(
            {
                "directory": str(directory.resolve()),
                "written": project.written,
                "kept": project.kept,
                "source": project.source,
            }
        )
        return
    for name in project.written:
        typer.echo(str(visible(str(directory / name))))
    if project.kept:
        typer.echo(f"Kept: {', '.join(project.kept)}", err=True)
    typer.echo(f"Source of sandrl in CI (ci/install.sh): {visible(project.source)}", err=True)
    go = "" if directory.resolve() == Path.cwd() else f"cd {visible(shlex.quote(str(directory)))} && "
    # The scripts call `sandrl`, which may have been called by its path.
    path = "" if shutil.which("sandrl") else f"PATH={visible(shlex.quote(str(Path(sys.executable).parent)))}:$PATH "
    typer.echo(f"Next: {go}{path}sh ci/check.sh", err=True)
