"""`sandrl art`: the Aviato Reward Toolkit, episodes with a sandbox each, to look at and to learn from."""

from __future__ import annotations

import typer

from sandrl.cli.art import rollout, train

app = typer.Typer(
    name="art",
    help="Aviato Reward Toolkit: episodes of several turns, each with a sandbox: train, rollout.",
    no_args_is_help=True,
)
app.command("train")(train.train)
app.command("rollout")(rollout.rollout)
