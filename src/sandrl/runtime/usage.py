"""Processor time and memory of processes, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Usage:
    """What one process used.

    Attributes:
        children_cpu_seconds: The same of the children it has waited for, and theirs.
    """

    parent: int
    cpu_seconds: float
    children_cpu_seconds: float
    resident_bytes: int


def of_process(pid: int) -> Usage:
    """Usage of a process.

    Raises:
        OSError: If there is none.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    own, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return Usage(int(fields[1]), own / _TICKS_PER_SECOND, children / _TICKS_PER_SECOND, int(fields[21]) * _PAGE_BYTES)


def suggested_concurrency() -> int:
    """How many sandboxes at once keep this machine busy without crowding it."""
    return max(4, 2 * len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Descendants:
    """What there is below one process."""

    processes: int
    cpu_seconds: float


def below(root: int) -> Descendants:
    """The descendants of a process, together."""
    usages: dict[int, Usage] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                usages[int(name)] = of_process(int(name))
            except OSError:
                continue  # it ended meanwhile
    total = usages[root].children_cpu_seconds if root in usages else 0.0
    family = {root}
    grew = True
    while grew:
        grew = False
        for pid, usage in usages.items():
            if usage.parent in family and pid not in family:
                family.add(pid)
                grew = True
                total += usage.cpu_seconds + usage.children_cpu_seconds
    return Descendants(len(family) - 1, total)
