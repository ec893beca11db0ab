"""Ctrl-C and SIGTERM, for every command the same.

The design decision: the first asks the work to finish what is in flight, the second to cancel it, and further ones
are answered but not obeyed, because what is left then is cleaning up, and that has a time limit of its own.
Handlers only raise the level of an `Interrupt`; the work tells what it makes of it through events. Before there is
work, and after it, a signal ends the command at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from sandrl.errors import InterruptedRunError

if TYPE_CHECKING:
    from sandrl.sandboxes import Interrupt

_ANSWER = b"\nsandrl: already stopping; sandboxes are being cleaned up\n"


@contextmanager
def passed_to(interrupt: Interrupt) -> Iterator[None]:
    """Passes SIGINT and SIGTERM to an interrupt for the length of a `with` block."""

    def handle(number: int, frame: FrameType | None) -> None:
        if not interrupt.is_heard:
            raise InterruptedRunError("interrupted before anything was scored", signal_number=number)
        if not interrupt.request(number):
            # Not `print`: the signal may have come in the middle of one.
            os.write(2, _ANSWER)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            # Whoever interrupts, interrupts again; the report must still be told.
            signal.signal(number, signal.SIG_IGN if interrupt.level else handler)
