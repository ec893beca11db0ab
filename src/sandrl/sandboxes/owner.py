"""The owner of a job's sandboxes: one process, identified so that no other process is mistaken for it.

A process id is not enough (it is reused, and means another process in another container or on another node), so an
owner is host, boot, pid namespace, pid and process start together. Its hash is a tag; the parts go into the ledger and
the registry of jobs, where a later `cleanup` can check them one by one.

Only the kernel that an owner runs on can show whether it lives. "Gone" is a proof: same host name, same boot, same pid
namespace, and no such process there, or one that started at another time. Any other owner that is not alive is
"unknown". This includes another boot id under the same host name: it may be this machine before a restart, but also
another machine of that name (containers and virtual machines often have the same name and share a home). Little is lost
by not guessing: local sandboxes do not outlive a restart, and remote ones end with their lifetime.
"""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sandrl.runtime.usage import of_process


class Liveness(StrEnum):
    """The state of an owner, as far as this machine can determine it.

    Attributes:
        ALIVE: It runs.
        GONE: It has ended, and will not stop its sandboxes any more.
        OTHER_HOST: It ran where this process cannot check: another host, boot or pid namespace.
        UNKNOWN: Too little is recorded of it, or the kernel does not show it.
    """

    ALIVE = "alive"
    GONE = "gone"
    OTHER_HOST = "other host"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that owns sandboxes.

    Attributes:
        boot_id: Changes with every boot of the host; empty where the kernel has none.
        pid_namespace: The kernel's name of the pid namespace; empty where it has none.
        started_ticks: When the process started, in clock ticks since boot.
    """

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started_ticks: int

    @property
    def hash(self) -> str:
        parts = (self.host, self.boot_id, self.pid_namespace, str(self.pid), str(self.started_ticks))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class OwnerFacts:
    """The facts that a machine has about the owner of a sandbox.

    Attributes:
        process: The owner; None if it is not in the registry of that machine.
        job_id: The job to which the sandbox belongs by that registry; None if there is none.
    """

    liveness: Liveness
    process: Owner | None = None
    job_id: str | None = None


def current_owner() -> Owner:
    return Owner(
        host=socket.gethostname(),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_link("/proc/self/ns/pid"),
        pid=os.getpid(),
        started_ticks=_started_ticks(),
    )


def liveness(owner: Owner | None) -> Liveness:
    """Whether an owner lives; `GONE` only where that is proven."""
    if owner is None:
        return Liveness.UNKNOWN
    here = current_owner()
    if not (owner.boot_id and owner.pid_namespace and owner.started_ticks):
        return Liveness.UNKNOWN
    if (owner.host, owner.boot_id, owner.pid_namespace) != (here.host, here.boot_id, here.pid_namespace):
        return Liveness.OTHER_HOST
    if not _exists(owner.pid):
        return Liveness.GONE
    # A /proc of another pid namespace (`unshare --pid` alone) has other processes under the same numbers.
    if _link("/proc/self") != str(here.pid):
        return Liveness.UNKNOWN
    try:
        stat = of_process(owner.pid)
    except OSError:
        # Hidden from us (`hidepid`), or it ended just now.
        return Liveness.UNKNOWN if _exists(owner.pid) else Liveness.GONE
    return Liveness.GONE if stat.has_ended or stat.started_ticks != owner.started_ticks else Liveness.ALIVE


def _started_ticks() -> int:
    try:
        return of_process("self").started_ticks
    except OSError:
        return 0


def _exists(pid: int) -> bool:
    # Zero and negative numbers are groups of processes, which no owner is.
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


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
