"""`sandrl tinker`: serves the Tinker API on this machine."""

from __future__ import annotations

import shlex

import typer

from sandrl.cli import signals
from sandrl.cli.configured import configured
from sandrl.cli.progress import Remarks
from sandrl.cli.text import visible
from sandrl.config.tinker import TinkerServeConfig
from sandrl.settings import load_settings

app = typer.Typer(name="tinker", help="The Tinker API on this machine, for small models: serve.")


@app.command("serve")
@configured(TinkerServeConfig)
def serve(config: TinkerServeConfig) -> None:
    """Serve the Tinker API with a small model to programs of this machine, until Ctrl-C."""
    from sandrl import events, extras
    from sandrl.sandboxes import Interrupt
    from sandrl.trainers.tinker.options import SERVICE_EXTRA

    class ServiceRemarks(Remarks):
        """Says where the service is on standard output; remarks go to standard error."""

        def __call__(self, event: events.Event) -> None:
            if isinstance(event, events.TinkerServed):
                line = f"Tinker service on {event.address}, base model {event.model} (key: {event.key_place})"
                typer.echo(visible(line))
                key = f'"$(cat {shlex.quote(event.key_place)})"' if event.has_key_file else f'"${event.key_place}"'
                typer.echo(visible(f"export TINKER_BASE_URL={event.address} TINKER_API_KEY={key}"), err=True)
            super().__call__(event)

    extras.check(("fastapi", "tinker", "torch", "transformers", "uvicorn"), extra=SERVICE_EXTRA)
    from sandrl.trainers.tinker.server import serve as serve_tinker

    interrupt = Interrupt()
    with ServiceRemarks() as said, signals.passed_to(interrupt):
        serve_tinker(config, load_settings(), emit=said, interrupt=interrupt)
