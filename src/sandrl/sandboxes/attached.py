"""A program in a sandbox with our own standard streams attached: `ssh` without a terminal."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue

from sandrl.errors import InfrastructureError, InterruptedRunError, NotRunningError, ServiceError
from sandrl.sandboxes.interrupt import Interrupt
from sandrl.sandboxes.inventory import Inventory
from sandrl.sandboxes.providers.protocol import AttachedProgram, Output

TIMED_OUT = 124
"""The exit code of a program that exceeded its time limit, as `timeout(1)` uses it."""

MAX_SECONDS = 86_400.0
"""How long a program without a time limit may run; no sandbox lives longer."""

_STDIN_BLOCK_BYTES = 65_536


def run_attached(
    inventory: Inventory,
    sandbox_id: str,
    argv: Sequence[str],
    *,
    stdin: int | None,
    stdout: Output,
    stderr: Output,
    timeout_seconds: float | None,
    interrupt: Interrupt,
) -> int:
    """Runs a program in a sandbox to its end.

    Args:
        stdin: Descriptor to read its standard input from; None for an empty one.
        timeout_seconds: After this it is killed; None for as long as the sandbox lives.

    Returns:
        Its exit code; `TIMED_OUT` if it exceeded its time limit.

    Raises:
        UnknownSandboxError: If there is no such sandbox.
        NotRunningError: If the sandbox does not run.
        InterruptedRunError: If the user asked to stop.
        BrokenPipeError: If the reader of the output has closed it; the program is killed.
        ServiceError: If the service does not answer or refuses.
    """
    info = inventory.get(sandbox_id)
    if info.has_ended:
        raise NotRunningError(sandbox_id)
    # From the start: the program can print, and the user answer with Ctrl-C, before `attach` has returned.
    with interrupt.heard():
        program = inventory.attach(
            sandbox_id,
            argv,
            stdin=stdin is not None,
            stdout=stdout,
            stderr=stderr,
            timeout_seconds=timeout_seconds or MAX_SECONDS,
        )
        if stdin is not None:
            threading.Thread(target=_feed, args=(program, stdin), daemon=True).start()
        _wait(program, interrupt)
    try:
        code = program.finish()
    except (InfrastructureError, NotRunningError) as error:
        if interrupt.level:
            message = "interrupted: the program in the sandbox was killed"
            raise InterruptedRunError(message, signal_number=interrupt.signal_number) from error
        raise
    return TIMED_OUT if code is None else code


def _wait(program: AttachedProgram, interrupt: Interrupt) -> None:
    rung: SimpleQueue[object] = SimpleQueue()
    interrupt.waker().add_done_callback(rung.put)
    program.ended.add_done_callback(rung.put)
    if not interrupt.level:
        rung.get()
    if interrupt.level:
        program.cancel()


def _feed(program: AttachedProgram, descriptor: int) -> None:
    # The program has ended, or does not read any more: its exit code says so.
    with suppress(ServiceError, OSError):
        while block := os.read(descriptor, _STDIN_BLOCK_BYTES):
            program.write(block)
        program.close_input()
