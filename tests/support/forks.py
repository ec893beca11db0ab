"""Work in a forked child of the tests."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def forked(work: Callable[[], None]) -> int:
    """Starts a child that does some work, and exits with 1 if that raises; returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 - a fork must end here
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)
