"""`sandrl sandboxes exec`: runs a program in a sandbox."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli.sandboxes.options import Id, Runtime, inventory_with
from sandrl.cli.units import time_option
from sandrl.settings import RuntimeKind

if TYPE_CHECKING:
    from typing import TextIO

    from sandrl.sandboxes.providers.protocol import Output


def execute(
    id_: Id,
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND", help="The program and its arguments, after `--`.", show_default=False),
    ],
    timeout: Annotated[
        float | None,
        time_option(help="Kill the program after this time, with exit code 124.", least=0.1),
    ] = None,
    runtime: Runtime = RuntimeKind.AUTO.value,
) -> None:
    """Run a program in a sandbox, and exit with its exit code. Standard input is passed on unless it is a terminal."""
    from sandrl.cli import signals
    from sandrl.sandboxes import Interrupt
    from sandrl.sandboxes.attached import TIMED_OUT, run_attached
    from sandrl.settings import load_settings

    inventory = inventory_with(load_settings(), runtime, id_)
    id_ = inventory.find(id_)
    interrupt = Interrupt()
    with signals.passed_to(interrupt):
        code = run_attached(
            inventory,
            id_,
            command,
            stdin=None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.fileno(),
            stdout=_output(sys.stdout),
            stderr=_output(sys.stderr),
            timeout_seconds=timeout,
            interrupt=interrupt,
        )
    if code == TIMED_OUT and timeout is not None:
        typer.echo(f"sandrl: the program was killed after {timeout:g} s", err=True)
    raise typer.Exit(code)


def _output(stream: TextIO) -> Output:
    from sandrl.cli.text import visible_lines
    from sandrl.sandboxes.providers.protocol import Output

    if stream.isatty():

        def show(block: bytes) -> None:
            stream.write(visible_lines(block.decode("utf-8", "replace")))
            stream.flush()

        return Output(show, is_exact=False)

    def pass_on(block: bytes) -> None:
        stream.buffer.write(block)
        stream.buffer.flush()

    return Output(pass_on)
