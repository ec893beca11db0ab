"""`sandrl policy`: small models that sandrl trains."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sandrl.cli import results
from sandrl.cli.verbosity import Quiet, Verbose, choose_verbosity
from sandrl.settings import load_settings

app = typer.Typer(name="policy", help="Small models of this machine: build.")


class PolicyName(StrEnum):
    """The names of the policies."""

    TINY = "tiny"


@app.command("build")
def build(
    name: Annotated[
        PolicyName, typer.Argument(metavar="NAME", help="The model: `tiny`, a Qwen 2 with about 356,000 parameters.")
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Output directory; must not exist or must be empty.")
    ],
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed of the weights.")] = 0,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Train the tiny policy from scratch, without downloads, and save it in the Hugging Face format."""
    from sandrl.tiny import copy_tiny_policy

    choose_verbosity(verbose=verbose, quiet=quiet)
    with results.choose(json_output=True) as tell:
        copy_tiny_policy(directory, load_settings().cache_dir, seed=seed, emit=tell)
    typer.echo(str(directory))
