"""Who owns a job's sandboxes: one process, named so that nobody mistakes another for it.

The design decision: a process id alone says nothing (it is reused, and means something else in another container or on
another node), so an owner is host, boot, pid namespace, pid and process start together. Its hash is a tag; the parts go
into the ledger, where a later `cleanup` can check them one by one.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that owns sandboxes.

    Attributes:
        host: The host's name.
        boot_id: Changes with every boot of the host; empty where the kernel has none.
        pid_namespace: The kernel's name of the pid namespace; empty where it has none.
        pid: The process id in that namespace.
        started_ticks: When the process started, in clock ticks since boot.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started_ticks: int

    @property
    def hash(self) -> str:
        """Twelve hex digits that stand for all of it."""
        parts = (self.host, self.boot_id, self.pid_namespace, str(self.pid), str(self.started_ticks))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def current_owner() -> Owner:
    """This process."""
    return Owner(
        host=socket.gethostname(),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_link("/proc/self/ns/pid"),
        pid=os.getpid(),
        started_ticks=_started_ticks(_read("/proc/self/stat")),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _started_ticks(stat: str) -> int:
    # The second field is the program's name in brackets and may contain anything, also spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0
