"""`sandrl sandboxes logs`: prints the output of the main program of a sandbox."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sandrl.cli import signals
from sandrl.cli.sandboxes.options import Id, Runtime, inventory_with
from sandrl.settings import RuntimeKind


def logs(
    id_: Id,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also print new output until the sandbox ends.")
    ] = False,
    tail: Annotated[int | None, typer.Option(metavar="N", min=0, help="Show only the last N lines.")] = None,
    runtime: Runtime = RuntimeKind.AUTO.value,
) -> None:
    """Show the output of a sandbox's main program. The output of `exec` is not saved."""
    from sandrl.cli.text import visible_lines
    from sandrl.settings import load_settings

    inventory = inventory_with(load_settings(), runtime, id_)
    id_ = inventory.find(id_)
    inventory.get(id_)
    is_terminal = sys.stdout.isatty()
    with signals.repeated_interrupt():
        for text in inventory.logs(id_, follow=follow, tail_lines=tail):
            # Not `echo`, which leaves out escape sequences on their way to a pipe.
            sys.stdout.write(visible_lines(text) if is_terminal else text)
            sys.stdout.flush()
