"""`sandrl art`: runs episodes in sandboxes, and trains on them with OpenPipe's ART."""

from __future__ import annotations

import typer

from sandrl.cli.art import export, rollout, train

app = typer.Typer(
    name="art", help="Episodes of several turns in sandboxes, and training with OpenPipe's ART: rollout, train, export."
)
app.command("train")(train.train)
app.command("rollout")(rollout.rollout)
app.command("export")(export.export)
