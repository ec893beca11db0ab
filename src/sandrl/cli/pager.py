"""Shows long texts page by page on a terminal, and prints them directly into a pipe.

The pager is the user's (`PAGER`), else `less`. It exits at once if everything fits on the screen, and passes colours
on. All texts were made safe before, so it can pass on nothing else.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress


def print_paged(pieces: Iterable[str]) -> None:
    """Prints pieces of safe text as they are made; on a terminal until the user has read enough."""
    command = _pager()
    if command is None:
        for piece in pieces:
            sys.stdout.write(piece)
        return
    environment = {"LESS": "FRX", "LESSSECURE": "1", **os.environ}
    pager = subprocess.Popen(
        command, stdin=subprocess.PIPE, env=environment, text=True, encoding="utf-8", errors="backslashreplace"
    )
    assert pager.stdin is not None, "it was asked for"
    # Ctrl-C is the pager's business while it is up.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Whoever has read enough leaves a broken pipe, which closing it finds once more.
        with suppress(BrokenPipeError), pager.stdin as stream, suppress(BrokenPipeError):
            for piece in pieces:
                stream.write(piece)
    finally:
        pager.wait()
        signal.signal(signal.SIGINT, previous)


def _pager() -> list[str] | None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        return None
    command = shlex.split(os.environ.get("PAGER", "less"))
    if not command or command == ["cat"] or shutil.which(command[0]) is None:
        return None
    return command
