"""The agent's own measure of what a sandbox uses, for what no kernel limit covers, and of quotas that sandboxes share.

Cheap sums in every round decide whether an expensive look is needed, and an expensive look is repeated only after nine
times the time that it took. Where a control group counts memory, only the objects that the kernel counts per user of
the host are looked for: pipes, epoll watches, descriptors.

A worker watches each of its cells with this module, as text and together with `processes`, in one namespace, so this
module imports nothing else of the package.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import time
from collections.abc import Container

from sandrl.runtime.guest.processes import (
    PAGE_BYTES,
    ProcessLimits,
    pids,
    place_of,
    proportional_bytes,
    read,
    resident_bytes,
    send_signal,
    sockets,
)

PIPES = 128
"""Pipes of one sandbox: an eighth of what a user of the host has by default before all pipes shrink."""
EPOLL_WATCHES = 8_192
DESCRIPTORS = 16_384
HIDDEN_PROCESSES = 16
HIDDEN_DESCRIPTORS = 24
"""Of one process that nobody may look into: few enough that the epoll watches on them are few."""
MAPPINGS = 262_144
QUEUED_BYTES = 128 << 20
FILE_LOCKS = 16_384

_PAUSES_PER_LOOK = 9.0
_PAUSES_PER_LOOK_AT_CELLS = 49.0
"""Each cell is watched from within its worker; what is looked at here is all of them together."""
_SHARE_OF_USER = 0.5
"""What all cells of a worker may have of what the kernel gives one user of the host."""
_PAGES_PER_PIPE = 16
_MAPPING_BYTES = 256
_FEW_SHARED = 16
_LEAST_SHARED_BYTES = 8 << 20
_FEW_SOCKETS = 64
_FORKED_WITHOUT_EXEC = 0x40
_READ_BYTES = 1 << 16
_F_GETPIPE_SZ = 1032
_FULL_PIPE_BYTES = 1 << 16


class ObjectLimits:
    """How many objects of the kernel a sandbox, a worker for some cells or one cell (0) may have together."""

    __slots__ = ("descriptors", "epoll_watches", "file_locks", "hidden_processes", "mappings", "pipes", "queued_bytes")

    def __init__(self, cells: int = 0, open_files: int = 0) -> None:
        shares = max(cells, 1)
        self.descriptors = shares * max(DESCRIPTORS, 2 * open_files)
        self.hidden_processes = shares * HIDDEN_PROCESSES
        self.mappings = shares * MAPPINGS
        self.queued_bytes = shares * QUEUED_BYTES
        self.file_locks = shares * FILE_LOCKS
        self.pipes, self.epoll_watches = PIPES, EPOLL_WATCHES
        if cells:
            pipes = _of_user("pipe-user-pages-soft") // _PAGES_PER_PIPE
            self.pipes = max(PIPES, min(shares * PIPES, pipes))
            self.epoll_watches = max(EPOLL_WATCHES, min(shares * EPOLL_WATCHES, _of_user("epoll/max_user_watches")))


class Watchdog:
    """Watches one sandbox from inside, or a cell from its worker; `disk` is -1 where it bounds its files by itself."""

    def __init__(self, limits: ProcessLimits, disk: int, network_of: int | str = "self") -> None:
        self._limits = limits
        self._disk = disk
        self._network_of = network_of
        self._most = ObjectLimits(limits.cells, limits.open_files)
        self._pauses = _PAUSES_PER_LOOK_AT_CELLS if limits.cells else _PAUSES_PER_LOOK
        self._objects = _Objects(self._most, counts_locks=not limits.in_group)
        self._hidden = _HiddenMemory(self._most)
        self._objects_due = self._hidden_due = 0.0

    def breach(self, spawned: Container[int], found: list[int] | None = None) -> str | None:
        """The first shared limit (`memory`, `pipes`, …) that the sandbox, or what is `found` of it, is over, or None.

        What the agent has `spawned` may not have executed a program yet.
        """
        found = pids() if found is None else found
        if self._memory_exceeded(found):
            return "memory"
        if self._hidden.mappings > self._most.mappings:
            return "mappings"
        if self._hidden.queued_bytes > self._most.queued_bytes:
            return "socket buffers"
        if sockets(self._network_of) > self._limits.sockets:
            return "sockets"
        if self._disk >= 0:
            usage = os.fstatvfs(self._disk)
            if usage.f_files - usage.f_ffree > self._limits.inodes:
                return "inodes"
        began = time.monotonic()
        if began < self._objects_due:
            return None
        breach = self._objects.breach(found, spawned)
        self._objects_due = _next_look(began, self._pauses)
        return breach

    def _memory_exceeded(self, found: list[int]) -> bool:
        resident = sum(map(resident_bytes, found))
        began = time.monotonic()
        if not self._limits.in_group and began >= self._hidden_due:
            self._hidden.measure(found, self._network_of)
            self._hidden_due = _next_look(began, self._pauses)
        if resident + self._hidden.total_bytes <= self._limits.memory_bytes:
            return False
        proportional = sum(map(proportional_bytes, found))
        return proportional + self._hidden.total_bytes > self._limits.memory_bytes

    def relieve_memory(self, found: list[int] | None = None) -> None:
        """Kill the process of the sandbox, or of a cell, that holds most; where many hold much together, all."""
        of_sandbox = pids() if found is None else found
        held = {pid: proportional_bytes(pid) + self._hidden.bytes_of.get(pid, 0) for pid in of_sandbox}
        if sum(held.values()) > 2 * self._limits.memory_bytes:
            for pid in found or (-1,):  # process 1 is the one process that -1 spares
                send_signal(pid, signal.SIGKILL)
        elif held:
            send_signal(max(held, key=lambda pid: held[pid]), signal.SIGKILL)


class _HiddenMemory:
    # Memory that is not resident in any process: shared memory unmapped by its user, page tables, mappings, queues.
    # Shared memory counts for each process that maps it (`bytes_of`).

    def __init__(self, most: ObjectLimits) -> None:
        self._most = most
        self.total_bytes = self.mappings = self.queued_bytes = 0
        self.bytes_of: dict[int, int] = {}
        self._extents: dict[bytes, int] = {}

    def measure(self, found: list[int], network_of: int | str = "self") -> None:
        seen: dict[bytes, int] = {}
        kernel = shared_resident = self.mappings = 0
        self.bytes_of = {}
        for pid in found:
            place = place_of(pid)
            status = _status(place)
            tables = status.get(b"VmPTE", 0) + status.get(b"VmPMD", 0)
            shared_resident += status.get(b"RssShmem", 0)
            mappings, extents = _mappings(place, self._most.mappings - self.mappings)
            self.mappings += mappings
            own = tables + mappings * _MAPPING_BYTES
            kernel += own
            for inode, extent in extents.items():
                seen[inode] = max(extent, seen.get(inode, 0), self._extents.get(inode, 0))
            self.bytes_of[pid] = own + max(sum(map(seen.__getitem__, extents)) - status.get(b"RssShmem", 0), 0)
            if self.mappings > self._most.mappings:
                break
        # A mapping that was made smaller keeps its memory: the largest size seen counts until the last of it is gone.
        self._extents = seen
        least = _LEAST_SHARED_BYTES if len(seen) > _FEW_SHARED else 0
        shared = sum(max(extent, least) for extent in seen.values())
        self.queued_bytes = _queued_bytes(network_of)
        self.total_bytes = kernel + max(shared - shared_resident, 0) + self.queued_bytes


class _Objects:
    # Kernel objects that are counted per user of the host, so that one sandbox could use up those of all, and locks,
    # which are memory that only a control group counts.

    def __init__(self, most: ObjectLimits, *, counts_locks: bool = True) -> None:
        self._most = most
        self._counts_locks = counts_locks

    def breach(self, found: list[int], spawned: Container[int]) -> str | None:
        pipes: set[str] = set()
        watches = descriptors = hidden = locks = 0
        for pid in found:
            place = place_of(pid)
            try:
                names = os.listdir(f"{place}/fd")
            except PermissionError:
                # Some judges hide themselves from what they judge; how many descriptors a process has still shows.
                if not (_has_ended(place) or (pid in spawned and _has_not_executed(pid))):
                    hidden += 1
                    if hidden > self._most.hidden_processes or _descriptor_count(place) > HIDDEN_DESCRIPTORS:
                        return "hidden descriptors"
                continue
            except OSError:
                continue
            descriptors += len(names)
            if descriptors > self._most.descriptors:
                return "descriptors"
            for name in names:
                try:
                    target = os.readlink(f"{place}/fd/{name}")
                except OSError:
                    continue
                if target.startswith("pipe:"):
                    pipes.add(target)
                elif target == "anon_inode:[eventpoll]":
                    watches += _count(f"{place}/fdinfo/{name}", b"tfd:", self._most.epoll_watches)
                    if watches > self._most.epoll_watches:
                        return "epoll watches"
                elif self._counts_locks and target.startswith("/"):
                    locks += _count(f"{place}/fdinfo/{name}", b"lock:", self._most.file_locks)
                    if locks > self._most.file_locks:
                        return "file locks"
            if len(pipes) > self._most.pipes:
                return "pipes"
        return None


class Quotas:
    """What the kernel counts per user of the host: whether there is any left, tried with a pipe and an epoll watch."""

    def __init__(self) -> None:
        self._epoll = select.epoll()

    def exhausted(self) -> str | None:
        """The quota that is used up, or None.

        It may have been used up by programs outside this sandbox, so what fails in it now says nothing about the code.
        """
        try:
            reading, writing = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            return "pipes" if error.errno == errno.ENFILE else None
        try:
            if fcntl.fcntl(reading, _F_GETPIPE_SZ) < min(_FULL_PIPE_BYTES, 16 * PAGE_BYTES):
                return "pipes"
            self._epoll.register(reading, select.EPOLLIN)
            self._epoll.unregister(reading)
        except OSError as error:
            return "epoll watches" if error.errno == errno.ENOSPC else None
        finally:
            os.close(reading)
            os.close(writing)
        return None


def _next_look(began: float, pauses: float) -> float:
    now = time.monotonic()
    return now + pauses * (now - began)


def _of_user(name: str) -> int:
    return int(int(read(f"/proc/sys/fs/{name}") or 0) * _SHARE_OF_USER)


def _has_ended(place: str) -> bool:
    # Whether a process has given up its memory and its descriptors; it stays until its parent waits for it.
    return (read(f"{place}/statm") or b"0 ").startswith(b"0 ")


def _has_not_executed(pid: int) -> bool:
    # Whether a child of the agent is still the agent's own code, which nothing may look into.
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return len(fields) > 6 and bool(int(fields[6]) & _FORKED_WITHOUT_EXEC)


def _descriptor_count(place: str) -> int:
    # How many descriptors a process has, where the kernel says so (from 6.2); else 0.
    with contextlib.suppress(OSError):
        return os.stat(f"{place}/fd").st_size
    return 0


def _count(path: str, needle: bytes, most: int) -> int:
    # How often `needle` occurs in a file of /proc; a file with more than `most` is not read to its end.
    count = 0
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while count <= most and (chunk := os.read(descriptor, _READ_BYTES)):
                count += chunk.count(needle)
        finally:
            os.close(descriptor)
    return count


def _status(place: str) -> dict[bytes, int]:
    sizes = {}
    for line in read(f"{place}/status").splitlines():
        name, _, value = line.partition(b":")
        if value.endswith(b" kB"):
            sizes[name] = int(value[:-3]) * 1024
    return sizes


def _mappings(place: str, most: int) -> tuple[int, dict[bytes, int]]:
    count = 0
    extents: dict[bytes, int] = {}
    rest = b""
    with contextlib.suppress(OSError):
        descriptor = os.open(f"{place}/maps", os.O_RDONLY | os.O_CLOEXEC)
        try:
            while count <= most and (chunk := os.read(descriptor, _READ_BYTES)):
                text, _, rest = (rest + chunk).rpartition(b"\n")
                count += chunk.count(b"\n")
                if b" /dev/zero" not in text:
                    continue
                for line in text.split(b"\n"):
                    span, mode, offset, _, inode, *name = line.split(None, 5)
                    if mode.endswith(b"s") and name and name[0].startswith(b"/dev/zero"):
                        start, _, end = span.partition(b"-")
                        extent = int(offset, 16) + int(end, 16) - int(start, 16)
                        extents[inode] = max(extent, extents.get(inode, 0))
        finally:
            os.close(descriptor)
    return count, extents


def _queued_bytes(network_of: int | str = "self") -> int:
    total = 0
    if sockets(network_of) <= _FEW_SOCKETS:
        return 0
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{network_of}/net/{name}", "rb") as file:
            next(file)
            for line in file:
                sent, _, received = line.split()[4].partition(b":")
                total += int(sent, 16) + int(received, 16)
    return total
