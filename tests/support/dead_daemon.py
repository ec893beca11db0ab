"""Kills the local runtime of the tests, as a user's `kill -9` or the kernel's memory killer does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from sandrl.runtime import daemon


def kill_daemon(state_dir: Path, *, waits: bool = True) -> None:
    """Kills the daemon of a state directory.

    It waits until the kernel has let go of it, unless told otherwise.
    """
    endpoint = daemon.find(state_dir)
    assert endpoint is not None
    os.kill(endpoint.pid, signal.SIGKILL)
    while waits and daemon.find(state_dir) is not None:
        time.sleep(0.05)
