"""The processes of a daemon's fork server, found from outside."""

from __future__ import annotations

import contextlib
from pathlib import Path

_NAME = b"sandrl-init"


def children(pid: int) -> list[int]:
    """The children of all threads of a process."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, file.read_text(encoding="ascii").split())
    return found


def outer_process(daemon_pid: int) -> int:
    """The process that starts the fork server and waits for it; 0 if there is none."""
    for pid in children(daemon_pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(_NAME):
                return pid
    return 0


def inner_process(daemon_pid: int) -> int:
    """The fork server itself, process 1 of its namespace; 0 if there is none."""
    outer = outer_process(daemon_pid)
    return next(iter(children(outer)), 0) if outer else 0


def host_uids(pid: int) -> tuple[int, ...]:
    """Real, effective, saved and file-system user id of a process, as the host sees them."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    return tuple(map(int, text.partition("\nUid:")[2].partition("\n")[0].split()))
