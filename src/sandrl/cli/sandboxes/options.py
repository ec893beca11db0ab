"""The options and the connection to the runtime that the commands about sandboxes share.

These commands never start a runtime. A local runtime that is not running has no sandboxes, which is a valid answer and
not an error.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.completion import values
from sandrl.cli.output import say_waiting
from sandrl.cli.text import visible
from sandrl.cli.units import age
from sandrl.errors import UnknownSandboxError
from sandrl.settings import RUNTIME_WORDS, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandrl.sandboxes.inventory import Inventory
    from sandrl.sandboxes.providers.protocol import UnreachableNode


class StatusName(StrEnum):
    """The statuses a sandbox can have; a copy of the library's, which takes a while to load."""

    PENDING = "pending"
    CREATING = "creating"
    PREPARING = "preparing"
    RUNNING = "running"
    PAUSED = "paused"
    TERMINATING = "terminating"
    COMPLETED = "completed"
    FAILED = "failed"
    TERMINATED = "terminated"


Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The sandbox: its id or a unique prefix of it.",
        show_default=False,
        autocompletion=values.sandbox_ids,
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        "-t",
        metavar="TAG",
        help="Select sandboxes with this tag, as it was given to --tag; repeatable.",
        autocompletion=values.tags,
    ),
]
Job = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="JOB",
        help="Select sandboxes of this job: its id or a unique prefix of it, with or without `job-`.",
        autocompletion=values.job_ids,
    ),
]
Runtime = Annotated[
    str, typer.Option(metavar=RUNTIME_WORDS, help="The runtime that has the sandboxes.", autocompletion=values.runtimes)
]  # fmt: skip
Orphans = Annotated[
    bool, typer.Option("--orphans", help="Select orphans: their owner process has ended, or their lifetime has passed.")
]
OlderThan = Annotated[
    float | None,
    typer.Option(
        "--older-than", metavar="TIME", parser=age, help="Select sandboxes older than this: 90s, 15m, 2h, 1d."
    ),
]


def open_inventory(settings: Settings, runtime: str, *, quiet: bool = False) -> Inventory | None:
    """The sandboxes of a runtime; None, with a remark, if none of it can be listed.

    Raises:
        AuthenticationError: If the remote service was asked for without credentials.
    """
    from sandrl.sandboxes.connection import absence, find_connection
    from sandrl.sandboxes.inventory import Inventory

    connection = find_connection(settings, runtime=runtime, emit=say_waiting)
    if connection is not None:
        return Inventory(connection)
    if not quiet:
        typer.echo(absence(settings, runtime=runtime), err=True)
    return None


def remark_unreached(unreached: Iterable[UnreachableNode]) -> None:
    """Says what part of a runtime could not be asked, so that its sandboxes are missing."""
    for each in unreached:
        typer.echo(visible(f"warning: some sandboxes cannot be listed: {each.reason}"), err=True)


def inventory_with(settings: Settings, runtime: str, sandbox_id: str) -> Inventory:
    """The sandboxes of a runtime that must have one of this id.

    Raises:
        UnknownSandboxError: If none of the runtime can be listed.
        AuthenticationError: If the remote service was asked for without credentials.
    """
    inventory = open_inventory(settings, runtime)
    if inventory is None:
        raise UnknownSandboxError(sandbox_id)
    return inventory
