"""`sandrl sandboxes exec` and `logs`: run a program in a sandbox, and print the output of its main program."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sandrl.cli import signals
from sandrl.cli.sandboxes.options import Id, Runtime, inventory_with
from sandrl.cli.text import visible_lines
from sandrl.cli.units import time_option
from sandrl.settings import RuntimeKind, load_settings

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
    from sandrl.sandboxes import Interrupt
    from sandrl.sandboxes.attached import TIMED_OUT, run_attached

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


def logs(
    id_: Id,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Also print new output until the sandbox ends.")
    ] = False,
    tail: Annotated[int | None, typer.Option(metavar="N", min=0, help="Show only the last N lines.")] = None,
    runtime: Runtime = RuntimeKind.AUTO.value,
) -> None:
    """Show the output of a sandbox's main program. The output of `exec` is not saved."""
    inventory = inventory_with(load_settings(), runtime, id_)
    id_ = inventory.find(id_)
    inventory.get(id_)
    is_terminal = sys.stdout.isatty()
    with signals.repeated_interrupt():
        for text in inventory.logs(id_, follow=follow, tail_lines=tail):
            # Not `echo`, which leaves out escape sequences on their way to a pipe.
            sys.stdout.write(visible_lines(text) if is_terminal else text)
            sys.stdout.flush()


def _output(stream: TextIO) -> Output:
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
