"""`sandrl serve`: serves rewards over HTTP."""

from __future__ import annotations

import typer

from sandrl.cli import signals
from sandrl.cli.configured import configured
from sandrl.cli.progress import Remarks
from sandrl.config.serve import ServeConfig
from sandrl.settings import load_settings


@configured(ServeConfig)
def serve(config: ServeConfig) -> None:
    """Serve rewards over HTTP to any trainer, until Ctrl-C."""
    from sandrl import events, extras
    from sandrl.sandboxes import Interrupt

    class ServiceRemarks(Remarks):
        """Says where the service is on standard output; remarks go to standard error."""

        def __call__(self, event: events.Event) -> None:
            if isinstance(event, events.ServiceStarted):
                named = f", {event.problems} problems" if event.problems else ""
                typer.echo(f"Serving rewards on {event.address} (token: {event.token_place}{named}; API: /docs)")
            super().__call__(event)

    extras.check(("fastapi", "fastapi_offline", "prometheus_client", "uvicorn"), extra="serve")
    from sandrl.service import server

    interrupt = Interrupt()
    with ServiceRemarks() as said, signals.passed_to(interrupt):
        server.serve(config, load_settings(), emit=said, interrupt=interrupt)
