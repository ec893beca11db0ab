"""Prints the sandboxes, time and cost that a command would need at most, for `--dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.output import print_json
from sandrl.cli.text import visible

if TYPE_CHECKING:
    from sandrl.rewards.estimate import SandboxEstimate

DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the sandboxes, sandbox time and cost that the command would need, and exit. Starts no sandbox and"
        " requests no completion.",
    ),
]


def print_estimate(estimate: SandboxEstimate, *, json_output: bool) -> None:
    """Prints what a command would take, as lines or as one JSON document."""
    if json_output:
        print_json(estimate.document())
        return
    for line in estimate_lines(estimate):
        typer.echo(line)


def estimate_lines(estimate: SandboxEstimate) -> list[str]:
    """What a command would take, for people."""
    return [visible(line) for line in estimate.lines]
