"""A program in a sandbox with our own standard streams attached: `ssh` without a terminal.

The design decision: output is passed on as it comes, and byte for byte. The SDK streams text, in which bytes that are
no UTF-8 are lost, and hands out the bytes at the end; so a stream is passed on as long as its text says exactly what
its bytes are, and from the first piece that does not, it is held until the bytes are there (a terminal gets the text).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from sandrl.errors import InterruptedRunError, NotRunningError
from sandrl.sandboxes.fleet import Fleet
from sandrl.sandboxes.interrupt import Interrupt
from sandrl.sandboxes.sdk import is_command_timeout, load_sdk

if TYPE_CHECKING:
    from cwsandbox import Process

TIMED_OUT = 124
"""The exit code of a program that ran out of time, as `timeout(1)` has it."""

MAX_SECONDS = 86_400.0
"""How long a program without a time limit may run; no sandbox lives longer."""

_STDIN_BLOCK_BYTES = 65_536
_DRAIN_SECONDS = 2.0
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class Output:
    """Where an output of the program goes.

    Attributes:
        write: Takes it as it comes.
        is_exact: Whether every byte matters more than its coming at once; to a reader at a terminal it does not.
    """

    write: Callable[[bytes], None]
    is_exact: bool = True


def run_attached(
    fleet: Fleet,
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
        fleet: The runtime.
        sandbox_id: Where.
        argv: Program and arguments.
        stdin: Descriptor to read its standard input from; None for an empty one.
        stdout: Where its output goes.
        stderr: Where its errors go.
        timeout_seconds: After this it is killed; None for as long as the sandbox lives.
        interrupt: The user's wish to stop, at which it is killed.

    Returns:
        Its exit code; `TIMED_OUT` if it ran out of time.

    Raises:
        UnknownSandboxError: If there is no such sandbox.
        NotRunningError: If the sandbox does not run.
        InterruptedRunError: If the user asked to stop.
        BrokenPipeError: If nobody reads the output any more; the program is killed.
        ServiceError: If the service does not answer or refuses.
    """
    info = fleet.get(sandbox_id)
    if info.has_ended:
        raise NotRunningError(sandbox_id)
    process = fleet.execute(sandbox_id, argv, stdin=stdin is not None, timeout_seconds=timeout_seconds or MAX_SECONDS)
    streams = (_Stream(process, process.stdout, stdout), _Stream(process, process.stderr, stderr))
    if stdin is not None:
        threading.Thread(target=_feed, args=(process, stdin), daemon=True).start()
    with interrupt.heard():
        _wait(process, interrupt)
    try:
        result = process.result()
    except (load_sdk().CWSandboxError, CancelledError) as error:
        for stream in streams:
            stream.finish(None)
        if interrupt.level:
            message = "interrupted: the program in the sandbox was killed"
            raise InterruptedRunError(message, signal_number=interrupt.signal_number) from error
        if is_command_timeout(error):
            return TIMED_OUT
        raise fleet.translate(error, sandbox_id) from error
    streams[0].finish(result.stdout_bytes)
    streams[1].finish(result.stderr_bytes)
    return result.returncode


def _wait(process: Process, interrupt: Interrupt) -> None:
    """Waits for the program's end, and brings it about if the user asks."""
    rung: SimpleQueue[None] = SimpleQueue()
    interrupt.waker().add_done_callback(lambda _: rung.put(None))
    future: Future[Any] = process._future
    future.add_done_callback(lambda _: rung.put(None))
    if not interrupt.level:
        rung.get()
    if interrupt.level:
        process.cancel()


class _Stream:
    """One output of a program on its way to us, read by a thread of its own."""

    def __init__(self, process: Process, reader: Any, output: Output) -> None:
        self._process = process
        self._reader = reader
        self._output = output
        self._written = 0
        self._held: list[str] = []
        self._broken: BrokenPipeError | None = None
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        for text in self._reader:
            if self._output.is_exact and (self._held or _REPLACEMENT in text):
                self._held.append(text)
                continue
            block = text.encode()
            try:
                self._output.write(block)
            except BrokenPipeError as error:
                self._broken = error
                self._process.cancel()
                return
            self._written += len(block)

    def finish(self, complete: bytes | None) -> None:
        """Passes on what was held.

        Args:
            complete: All there was; None if that is not known, and the text is the best there is.

        Raises:
            BrokenPipeError: If nobody reads it any more.
        """
        # A program that could not be started has streams that never end.
        self._thread.join(_DRAIN_SECONDS)
        self._reader.close()
        self._thread.join()
        if self._broken is not None:
            raise self._broken
        if self._held:
            held = "".join(self._held).encode() if complete is None else complete[self._written :]
            self._output.write(held)


def _feed(process: Process, descriptor: int) -> None:
    """Copies a descriptor to the program's standard input; whatever ends first ends it."""
    assert process.stdin is not None, "it was asked for"
    try:
        while block := os.read(descriptor, _STDIN_BLOCK_BYTES):
            process.stdin.write(block).result()
        process.stdin.close().result()
    except (load_sdk().CWSandboxError, CancelledError, OSError):
        # The program has ended, or does not read any more: what came of it is told by its exit code.
        return
