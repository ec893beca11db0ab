"""Ends the sandboxes of a process that was killed: `python -m sandrl.sandboxes.keeper TAG…`.

The process that starts it holds the other end of its standard input. The kernel closes that end when the process
ends, also after SIGKILL, so the keeper only waits for it, and needs no signal and no clock. It is not a child of the
process that starts it, because some processes (a worker of Ray, for example) kill their children when they end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from sandrl.closing import Closing

_RELEASED = b"released\n"


class Keeper(Closing):
    """A process that ends the local sandboxes with these tags if this process ends without closing it."""

    def __init__(self, tags: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sandrl.sandboxes.keeper", *tags],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # It leaves a process of its own behind.
        self._process.wait()

    def close(self) -> None:
        """Releases it, because the sandboxes have ended or are stopped by another process."""
        stream = self._process.stdin
        if stream is None or stream.closed:
            return
        with suppress(OSError):
            stream.write(_RELEASED)
            stream.flush()
        with suppress(OSError):
            stream.close()


def main(tags: Sequence[str]) -> None:
    """Waits, and ends them unless it was released."""
    if os.fork():
        return
    if sys.stdin.buffer.read() == _RELEASED:
        return
    from concurrent.futures import wait

    from sandrl.sandboxes.connection import find_connection
    from sandrl.settings import RuntimeKind, load_settings

    connection = find_connection(load_settings(), runtime=RuntimeKind.LOCAL)
    if connection is None:
        return
    client = connection.open()
    # What was asked for with the last breath may come to be after a first look.
    for _ in range(2):
        wait([sandbox.stop() for sandbox in client.list(tags).result()])


if __name__ == "__main__":
    main(sys.argv[1:])
