"""JSON documents on standard output, in the same format for every command, and remarks beside them."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from sandrl.bounds import finite
from sandrl.events import Event, RuntimeWaitedFor

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def say_waiting(event: Event) -> None:
    """Says on standard error what a command waits for."""
    if isinstance(event, RuntimeWaitedFor):
        typer.echo(f"{event.message} …", err=True)


def print_json(document: Any) -> None:
    """Prints one JSON document."""
    # ASCII: what a model wrote may hold lone surrogates and escape sequences, and this may be shown on a terminal.
    try:
        text = json.dumps(document, ensure_ascii=True, indent=2, default=str, allow_nan=False)
    except ValueError:
        # Nothing that JSON cannot hold should come this far; if it does, the rest of the document is not lost.
        text = json.dumps(finite(document), ensure_ascii=True, indent=2, default=str)
    sys.stdout.write(text + "\n")
