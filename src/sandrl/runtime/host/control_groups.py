"""Control groups: the kernel's own account of a sandbox's memory and processes, where this user may make groups.

A group is made below the group that the daemon runs in (or the nearest one above it that this user may divide), so that
no limit set on the daemon is escaped. A group counts what resident memory does not show: shared memory that no process
maps any more, page tables, mappings, socket buffers, epoll watches, file locks. Groups are used again by later
sandboxes, because a removed group stays in the kernel while a page is charged to it.

Version 1 (one hierarchy per controller) and version 2 (one for all) are both supported: many containers give root
version 1, and systemd delegates version 2 to users.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandrl.runtime.host.launcher import BootRequest, worker_memory_bytes
from sandrl.runtime.usage import of_process

logger = logging.getLogger(__name__)

_CONTROLLERS = ("memory", "pids")
_PROCESSORS = "cpu"  # the controller that groups with a limit of processors need, too
_PERIOD_MICROSECONDS = 100_000
_PREFIX = "sandrl-"
_IDLE_KEPT = 32
_SLACK_BYTES = 64 << 20
"""What the kernel itself may need for a sandbox beyond its memory and its files: stacks, pipes, sockets."""
_SLACK_PROCESSES = 8
_SOCKET_BUFFERS_BYTES = 128 << 20
_SHARE_OF_ALL_PROCESSES = 0.5
_REMOVAL_SECONDS = 1.0
_PAUSE_SECONDS = 0.02


class GroupsUnavailableError(Exception):
    """This user cannot make control groups here; the message says why."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """What the processes of one group may use together: memory includes that of the kernel and of their files."""

    memory_bytes: int
    processes: int
    processors: float | None = None

    @classmethod
    def of(cls, request: BootRequest) -> GroupLimits:
        """The limits of a sandbox's group: what its files and its processes may hold each, and room for the kernel.

        Each cell has files of its own besides those of its worker.
        """
        together = request.together()
        with_files = min(together.memory_bytes + request.cells * request.disk_bytes, worker_memory_bytes())
        return cls(
            max(together.memory_bytes, with_files) + request.disk_bytes + _SLACK_BYTES,
            together.processes + _SLACK_PROCESSES,
            request.processors,
        )


class Group:
    """One sandbox's group: a directory per hierarchy. Build it with `ControlGroups.take`."""

    def __init__(self, memory: Path, pids: Path, cpu: Path | None, version: int, limits: GroupLimits) -> None:
        self._memory, self._pids = memory, pids
        self._cpu = None if limits.processors is None else cpu
        self._directories = {memory, pids, *([self._cpu] if self._cpu else [])}
        self._version = version
        self.limits = limits
        self._seen_kills = 0

    def make(self) -> None:
        """Make the directories and set the limits.

        Raises:
            OSError: If the kernel refuses.
        """
        for directory in self._directories:
            directory.mkdir()
        most = self.limits.memory_bytes
        _write(self._memory / ("memory.limit_in_bytes" if self._version == 1 else "memory.max"), most)
        # Where the kernel has them: memory with swap, and TCP buffers, which version 1 counts separately.
        tcp = min(most, _SOCKET_BUFFERS_BYTES)
        more = {"memory.memsw.limit_in_bytes": most, "memory.kmem.tcp.limit_in_bytes": tcp}
        for name, value in (more if self._version == 1 else {"memory.swap.max": 0}).items():
            with contextlib.suppress(OSError):
                _write(self._memory / name, value)
        _write(self._pids / "pids.max", self.limits.processes)
        if self._cpu is not None and self.limits.processors is not None:
            quota = int(self.limits.processors * _PERIOD_MICROSECONDS)
            if self._version == 1:
                _write(self._cpu / "cpu.cfs_quota_us", quota)
            else:
                _write(self._cpu / "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")

    def add(self, pids: Iterable[int]) -> None:
        """Move processes into the group; what they start from then on is in it, too.

        Raises:
            OSError: If the kernel refuses.
        """
        for pid in pids:
            for directory in self._directories:
                _write(directory / "cgroup.procs", pid)

    def memory_kills(self) -> int:
        """How many processes were killed for the memory limit since this was last asked."""
        name = "memory.oom_control" if self._version == 1 else "memory.events"
        try:
            found = re.search(rb"^oom_kill (\d+)$", (self._memory / name).read_bytes(), re.MULTILINE)
        except OSError:
            return 0
        total = int(found[1]) if found else 0
        kills, self._seen_kills = total - self._seen_kills, total
        return kills

    def is_empty(self) -> bool:
        try:
            return not any((path / "cgroup.procs").read_bytes() for path in self._directories)
        except OSError:
            return False

    def remove(self) -> bool:
        """Remove the directories; returns whether all are gone."""
        return sum(map(_remove, self._directories)) == len(self._directories)


class ControlGroups:
    """The groups of one daemon. Build it with `find`."""

    def __init__(self, parents: Mapping[str, Path], version: int) -> None:
        self.version = version
        name = f"{_PREFIX}{_owner(os.getpid())}-{os.urandom(3).hex()}"
        self._bases = {controller: parent / name for controller, parent in parents.items()}
        self._number = 0
        self._idle: list[Group] = []
        self._leaving: list[Group] = []

    @classmethod
    def find(cls) -> ControlGroups:
        """Find where groups can be made, remove those of daemons that have died, and make this daemon's own.

        Raises:
            GroupsUnavailableError: If they cannot be made.
        """
        refusals: list[str] = []
        for version, parents in _candidates():
            groups = cls(parents, version)
            try:
                groups._make_bases()
            except OSError as error:
                groups._remove_bases()
                refusals.append(f"below {os.path.dirname(str(error.filename))}: {error.strerror}")
                continue
            for abandoned in (base for parent in set(parents.values()) for base in parent.glob(f"{_PREFIX}*")):
                if _is_abandoned(abandoned.name):
                    _remove_tree(abandoned)
            return groups
        raise GroupsUnavailableError("; ".join(dict.fromkeys(refusals)) or "no control groups are mounted")

    def _make_bases(self) -> None:
        for controller, base in list(self._bases.items()):
            try:
                base.mkdir(exist_ok=True)
            except OSError:
                if controller != _PROCESSORS:
                    raise
                del self._bases[controller]
        if self.version == 2:
            base = self._bases["memory"]
            _write(base / "cgroup.subtree_control", " ".join(f"+{name}" for name in _CONTROLLERS))
            with contextlib.suppress(OSError):
                _write(base / "cgroup.subtree_control", f"+{_PROCESSORS}")
                self._bases[_PROCESSORS] = base
        most = int(Path("/proc/sys/kernel/pid_max").read_text(encoding="ascii"))
        _write(self._bases["pids"] / "pids.max", int(most * _SHARE_OF_ALL_PROCESSES))

    @property
    def limits_processors(self) -> bool:
        """Whether a limit of processors is enforced."""
        return _PROCESSORS in self._bases

    def take(self, limits: GroupLimits) -> Group:
        """A group without processes, with these limits; give it back with `release`.

        Raises:
            OSError: If the kernel refuses.
        """
        self._settle()
        for group in reversed(self._idle):
            if group.limits == limits:
                self._idle.remove(group)
                return group
        self._number += 1
        memory, pids = (self._bases[name] / str(self._number) for name in _CONTROLLERS)
        cpu = self._bases[_PROCESSORS] / str(self._number) if self.limits_processors else None
        group = Group(memory, pids, cpu, self.version, limits)
        try:
            group.make()
        except FileNotFoundError:  # somebody removed the empty groups of this daemon
            self._make_bases()
            group.make()
        return group

    def release(self, group: Group) -> None:
        """Give back a group whose processes have been killed; it is used again once they are gone."""
        self._leaving.append(group)
        self._settle()

    def _settle(self) -> None:
        still_leaving = []
        for group in self._leaving:
            if not group.is_empty():
                still_leaving.append(group)
            elif len(self._idle) < _IDLE_KEPT:
                group.memory_kills()
                self._idle.append(group)
            elif not group.remove():
                still_leaving.append(group)
        self._leaving = still_leaving

    def close(self) -> None:
        """Remove every group; their processes must have been killed."""
        self._remove_bases()

    def _remove_bases(self) -> None:
        for base in set(self._bases.values()):
            _remove_tree(base)


def pid_of(pidfd: int) -> int:
    """The process that a pidfd refers to, by its number in this PID namespace.

    Raises:
        OSError: If it has ended.
    """
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text(encoding="ascii")
    found = re.search(r"^Pid:\s+(\d+)$", text, re.MULTILINE)
    if found is None or found[1] == "0":
        raise ProcessLookupError("the process has ended")
    return int(found[1])


def _owner(pid: int) -> str:
    # Names a process so that a later one with its number has another name: PID namespace, number, start.
    return f"{_namespace()}-{pid}-{of_process(pid).started_ticks}"


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _is_abandoned(name: str) -> bool:
    # Whether the daemon that made a group is known to be dead: one of another PID namespace never is.
    found = re.fullmatch(rf"{_PREFIX}(\d+)-(\d+)-(\d+)-[0-9a-f]+", name)
    if found is None or int(found[1]) != _namespace():
        return False
    try:
        return _owner(int(found[2])) != name.removeprefix(_PREFIX).rpartition("-")[0]
    except OSError:
        return True


@dataclass(frozen=True, slots=True)
class _Mount:
    place: Path
    root: str
    version: int
    options: frozenset[str]

    def directory_of(self, path: str) -> Path | None:
        if not (path + "/").startswith(self.root.rstrip("/") + "/"):
            return None
        return self.place / path[len(self.root.rstrip("/")) :].lstrip("/")


def _candidates() -> Iterator[tuple[int, dict[str, Path]]]:
    mounts, own = list(_mounts()), _own_groups()
    first: dict[str, Path] = {}
    for controller in (*_CONTROLLERS, _PROCESSORS):
        for mount in mounts:
            if mount.version == 1 and controller in mount.options and controller in own:
                directory = mount.directory_of(own[controller])
                if directory is not None:
                    first[controller] = directory
    if set(_CONTROLLERS) <= first.keys():
        yield 1, first
    for mount in mounts:
        directory = mount.directory_of(own[""]) if mount.version == 2 and "" in own else None
        while directory is not None:
            if _divides(directory):
                yield 2, dict.fromkeys(_CONTROLLERS, directory)
            directory = directory.parent if directory != mount.place else None


def _divides(directory: Path) -> bool:
    try:
        if set(_CONTROLLERS) <= set((directory / "cgroup.subtree_control").read_text(encoding="ascii").split()):
            return True
        if not set(_CONTROLLERS) <= set((directory / "cgroup.controllers").read_text(encoding="ascii").split()):
            return False
        if not (directory / "cgroup.type").exists():  # the root of all groups, which is the administrator's to divide
            return False
        # Refused where the group has processes of its own, as the one that the daemon runs in has.
        _write(directory / "cgroup.subtree_control", " ".join(f"+{name}" for name in _CONTROLLERS))
    except OSError:
        return False
    return True


def _mounts() -> Iterator[_Mount]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            before, _, after = line.partition(" - ")
            place, kind = before.split(), after.split()
            if len(place) > 4 and len(kind) > 2 and kind[0] in ("cgroup", "cgroup2"):
                version = 1 if kind[0] == "cgroup" else 2
                yield _Mount(Path(place[4]), place[3], version, frozenset(kind[2].split(",")))


def _own_groups() -> dict[str, str]:
    # The group of this process per controller; that of version 2 has no controller's name.
    groups: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            groups |= dict.fromkeys(controllers.split(","), path)
    return groups


def _write(path: Path, value: int | str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)


def _remove(directory: Path) -> bool:
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _remove_tree(base: Path) -> None:
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while True:
        left = [path for path in base.glob("*") if path.is_dir() and not _remove(path)]
        if not left and _remove(base):
            return
        if time.monotonic() > deadline:
            logger.warning("the control group %s could not be removed", base)
            return
        time.sleep(_PAUSE_SECONDS)
