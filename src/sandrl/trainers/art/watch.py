"""Reports that a training is waiting for its service, while the service's own library waits silently.

This module decides nothing. A service can come back after a short outage, and the user can stop the training; the
message says what the training is waiting for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandrl.errors import SandrlError
from sandrl.events import Emit, Warned

_PAUSE_SECONDS = 5.0
# One miss is no absence.
_MISSES = 2


@contextmanager
def watched(check: Callable[[], None], emit: Emit) -> Iterator[None]:
    """Says when a service stops answering for the length of a `with` block, and when it answers again.

    Args:
        check: Asks the service; raises if it does not answer.
        emit: Told.
    """
    over = threading.Event()

    def watch() -> None:
        misses = 0
        while not over.wait(_PAUSE_SECONDS):
            try:
                check()
            except SandrlError as error:
                misses += 1
                if misses == _MISSES and not over.is_set():
                    hint = "waiting for it; press Ctrl-C twice to cancel the step, and use `resume` to continue later"
                    emit(Warned(error.message, hint, (*error.fields, "resume")))
            else:
                if misses >= _MISSES and not over.is_set():
                    emit(Warned("it answers again"))
                misses = 0

    threading.Thread(target=watch, name="sandrl-watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
