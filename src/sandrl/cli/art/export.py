"""`sandrl art export`: saves a trained model of the Tinker service for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sandrl.cli import results
from sandrl.cli.completion import values
from sandrl.cli.verbosity import Quiet, Verbose, choose_verbosity, is_quiet
from sandrl.config.tinker import Dtype
from sandrl.settings import load_settings


def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run of `sandrl art train --backend embedded`, or a checkpoint of `sandrl tinker serve` (tinker://…).",
            autocompletion=values.run_names,
        ),
    ],
    directory: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="Output directory; must not exist or must be empty.")
    ],
    step: Annotated[
        int | None, typer.Option("--step", metavar="N", min=0, help="Step of the run; default: the last one.")
    ] = None,
    adapters: Annotated[
        bool,
        typer.Option("--adapters", help="Save the LoRA adapters alone, in peft's format, instead of a whole model."),
    ] = False,
    dtype: Annotated[
        Dtype | None,
        typer.Option("--dtype", help="Numbers of the weights; default: those of the base model, for adapters float32."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Directory of the checkpoints of `sandrl tinker serve`."),
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Save a model that the Tinker service on this machine trained, in the Hugging Face format."""
    from sandrl.trainers.tinker.export import ExportOptions, export_model

    choose_verbosity(verbose=verbose, quiet=quiet)
    options = ExportOptions(source, step, adapters, dtype, state)
    with results.choose(json_output=True) as tell:
        exported = export_model(options, directory, load_settings(), emit=tell)
    if not is_quiet():
        typer.echo(f"{exported.name}: {exported.content}, base model {exported.base_model}", err=True)
    typer.echo(str(directory))
