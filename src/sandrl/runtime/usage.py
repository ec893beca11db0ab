"""State, processor time and memory of processes, read from /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessStat:
    """What `/proc/PID/stat` says of a process.

    Attributes:
        state: A letter: `S` for one that sleeps, `T` for one that is stopped, `Z` for one that has ended.
        started_ticks: When it started, in clock ticks since boot.
        children_cpu_seconds: User and system time of the children it has waited for, and theirs.
    """

    state: str
    parent: int
    cpu_seconds: float
    children_cpu_seconds: float
    threads: int
    started_ticks: int
    resident_bytes: int

    @property
    def has_ended(self) -> bool:
        """Whether only its exit status is left, for a parent that has not asked for it yet."""
        # A first thread that ended reads as a zombie, too, while others of the process go on.
        return self.state in "ZX" and self.threads <= 1


def of_process(pid: int | str) -> ProcessStat:
    """What the kernel says of a process, by its number or `self`.

    Raises:
        OSError: If there is none, or it is hidden.
    """
    # The second field is the program's name in brackets and may contain anything, also spaces and brackets.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return ProcessStat(
        state=fields[0],
        parent=int(fields[1]),
        cpu_seconds=sum(map(int, fields[11:13])) / _TICKS_PER_SECOND,
        children_cpu_seconds=sum(map(int, fields[13:15])) / _TICKS_PER_SECOND,
        threads=int(fields[17]),
        started_ticks=int(fields[19]),
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def suggested_concurrency() -> int:
    return max(4, 2 * len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Descendants:
    """What there is below one process."""

    processes: int
    cpu_seconds: float


def family(pid: int) -> list[int]:
    """A process, and all that there is below it."""
    found = [pid]
    for known in found:
        with suppress(OSError):  # it has ended meanwhile
            for task in os.listdir(f"/proc/{known}/task"):
                children = Path(f"/proc/{known}/task/{task}/children").read_text(encoding="ascii")
                found += map(int, children.split())
    return found


def below(root: int) -> Descendants:
    processes, cpu_seconds = 0, of_process(root).children_cpu_seconds
    for pid in family(root)[1:]:
        with suppress(OSError):
            usage = of_process(pid)
            processes += 1
            cpu_seconds += usage.cpu_seconds + usage.children_cpu_seconds
    return Descendants(processes, cpu_seconds)
