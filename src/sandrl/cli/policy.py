"""`sandrl policy`: models that sandrl makes itself."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(name="policy", help="Models that sandrl makes itself: build.", no_args_is_help=True)


class PolicyName(StrEnum):
    """The policies there are."""

    TINY = "tiny"


@app.command("build")
def build(
    name: Annotated[
        PolicyName, typer.Argument(metavar="NAME", help="`tiny`: a Qwen 2 of a third of a million weights.")
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to put it; must not exist, or be empty.")],
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Decides its weights.")] = 0,
) -> None:
    """Make a small policy on this machine, with nothing downloaded, as a folder that any Hugging Face tool loads."""
    from sandrl.cli import results
    from sandrl.settings import load_settings
    from sandrl.tiny import copy_tiny_policy

    with results.choose(json_output=True) as tell:
        copy_tiny_policy(directory, load_settings().cache_dir, seed=seed, emit=tell)
    typer.echo(str(directory))
