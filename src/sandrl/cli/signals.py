"""Handles Ctrl-C, SIGTERM and the end of the terminal, in the same way for every command.

The first signal requests that the work in flight finishes, and the second that it is cancelled. Further signals only
print a message, because only cleanup is left, which has its own time limit. Handlers only raise the level of an
`Interrupt`; the work reports its reaction through events. Before and after the work, a signal ends the command at once.
A signal that the parent process has disabled stays disabled.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from sandrl.errors import InterruptedRunError

if TYPE_CHECKING:
    from sandrl.sandboxes import Interrupt

_ANSWER = b"\nsandrl: already stopping; sandboxes are being cleaned up\n"
_LONGEST_WAIT_SECONDS = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def passed_to(interrupt: Interrupt) -> Iterator[None]:
    """Passes SIGINT, SIGTERM and SIGHUP to an interrupt for the length of a `with` block."""
    # Asked now: a terminal that is gone does not answer any more.
    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]

    pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() != pid:
            # A forked child has inherited the handler, not the work: the signal ends it as it would have without us.
            signal.signal(number, previous[signal.Signals(number)])
            os.kill(os.getpid(), number)
            return
        if number == signal.SIGHUP:
            _leave(terminals)
            # The kernel and the shell both tell of one and the same end of a terminal.
            if interrupt.level:
                return
        if not interrupt.is_heard:
            # A library that catches every exception may catch this one: the level still says that it is time to end.
            interrupt.request(number)
            when = "when all was done" if interrupt.was_heard else "before there was anything to save"
            raise InterruptedRunError(f"interrupted {when}", signal_number=number)
        if not interrupt.request(number):
            # Not `print`: the signal may have come in the middle of one.
            os.write(2, _ANSWER)

    # `nohup`, and scripts that run something in the background, switch signals off.
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in heard}
    try:
        yield
    finally:
        for number, handler in previous.items():
            # Whoever interrupts, interrupts again; the report must still be told.
            signal.signal(number, signal.SIG_IGN if interrupt.level else handler)


@contextmanager
def repeated_interrupt() -> Iterator[None]:
    """Raises the `KeyboardInterrupt` of a Ctrl-C again and again until the `with` block has ended.

    For blocks that wait in a library and have nothing to save: a library may swallow the exception, or wait for an
    answer on its way out. Python also handles a signal only after the wait in which it arrives, and a signal that
    arrives just before the kernel's wait does not end it: a timer ends every wait.
    """
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = is_interrupted or number == signal.SIGINT
        if is_interrupted:
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    previous = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_REAL, _LONGEST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in previous.items():
            signal.signal(number, handler)


def _leave(terminals: Iterable[int]) -> None:
    # Writes to nowhere what was meant for a terminal that is gone: not even an error may end the cleaning up.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in terminals:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
