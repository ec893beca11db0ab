"""`sandrl art`: episodes with a sandbox each, to look at, and to learn from with OpenPipe's ART."""

from __future__ import annotations

import typer

from sandrl.cli.art import rollout, train

app = typer.Typer(
    name="art",
    help="Episodes of several turns, each with a sandbox, and training on them with OpenPipe's ART.",
    no_args_is_help=True,
)
app.command("train")(train.train)
app.command("rollout")(rollout.rollout)
