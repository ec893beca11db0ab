"""Runs a command on a terminal of its own and types into it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CTRL_C = b"\x03"


@dataclass(frozen=True)
class Shown:
    """What a command did on its terminal.

    Its exit code is negative for a signal.
    """

    text: str
    exit_code: int

    @property
    def plain(self) -> str:
        """The text without escape sequences."""
        return _ESCAPES.sub("", self.text).replace("\r\n", "\n")


def run_on_terminal(
    argv: Sequence[str],
    *,
    columns: int = 100,
    rows: int = 30,
    environment: Mapping[str, str] | None = None,
    typed: Sequence[tuple[Callable[[str], bool], bytes]] = (),
    timeout_seconds: float = 60.0,
) -> Shown:
    """Runs a command to its end.

    Each of `typed` is typed once its condition on the text so far holds, in this order. After the timeout the command
    is killed and the caller told.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        variables = {**os.environ, "TERM": "xterm-256color", **(environment or {})}
        # Not `execvp`: it would pass on what readline, which pytest loads, put into the C environment: COLUMNS.
        os.execvpe(argv[0], list(argv), variables)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    written, waiting = b"", list(typed)
    deadline = time.monotonic() + timeout_seconds
    try:
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.05)[0]:
                try:
                    block = os.read(terminal, 65536)
                except OSError:  # what Linux calls the end of a terminal
                    break
                if not block:
                    break
                written += block
            if waiting and waiting[0][0](_ESCAPES.sub("", written.decode("utf-8", "replace"))):
                os.write(terminal, waiting.pop(0)[1])
        else:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"{argv} did not end in {timeout_seconds} s and wrote:\n{written.decode()}")
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    return Shown(written.decode("utf-8", "replace"), os.waitstatus_to_exitcode(status))
