"""`sandrl sandboxes`: lists sandboxes and their owners, and stops orphaned sandboxes."""

from __future__ import annotations

import typer

from sandrl.cli.sandboxes import cleanup, ls, output, show
from sandrl.cli.sandboxes.snapshot import snapshot

app = typer.Typer(name="sandboxes", help="Sandboxes and their owners: ls, cleanup, count, show, exec, logs, snapshot.")
app.command("ls")(ls.ls)
app.command("cleanup")(cleanup.cleanup)
app.command("count")(show.count)
app.command("show")(show.show)
app.command("exec")(output.execute)
app.command("logs")(output.logs)
app.command("snapshot")(snapshot)
