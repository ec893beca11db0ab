"""The group `sandrl runs`, with the commands that have files of their own."""

from __future__ import annotations

from sandrl.cli import exchange, regrade, runs, tail

app = runs.app
app.command("export")(exchange.export)
app.command("import")(exchange.import_)
app.command("regrade")(regrade.regrade)
app.command("tail")(tail.tail)
