"""What the agent knows about the processes of its sandbox: finding, killing and measuring them.

Without a delegated control group no kernel limit covers a whole sandbox, so the agent adds the memory of its
processes up itself, many times a second while any runs. Shared pages are counted once (PSS), but only when the
cheap sum, which counts them per process, is already over the limit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_ROUNDS = 8
_MUCH_MAPPED_BYTES = 4 << 30
ADDRESS_SPACE_BYTES = 64 << 30
OPEN_FILES = 512
_NICENESS = 5


class Limits:
    """What one sandbox may use.

    Args:
        memory_bytes: Of one process's private memory, and of all processes' resident memory together.
        processes: How many may exist at once, threads counted.
        sockets: How many may be open at once; their buffers are kernel memory that nothing else counts.
        inodes: How many files and directories may exist.
    """

    __slots__ = ("inodes", "memory_bytes", "processes", "sockets")

    def __init__(self, memory_bytes: int, processes: int, sockets: int, inodes: int) -> None:
        self.memory_bytes = memory_bytes
        self.processes = processes
        self.sockets = sockets
        self.inodes = inodes

    def apply_per_process(self) -> None:
        """Set the limits the kernel keeps per process (or per user in this namespace), for good.

        The agent itself keeps its open files: descriptors in flight are counted per user of the host and held against
        the limit of whoever sends next, so it must have more room than any program of any sandbox.
        """
        limits = {
            # Data, not address space: threads and allocators reserve address space they never touch.
            resource.RLIMIT_DATA: self.memory_bytes,
            resource.RLIMIT_NPROC: self.processes,
            # Bounds page tables, which nothing else counts: 1/512 of it at most.
            resource.RLIMIT_AS: ADDRESS_SPACE_BYTES,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_MSGQUEUE: 0,
            resource.RLIMIT_MEMLOCK: 64 << 10,
            resource.RLIMIT_SIGPENDING: 1024,
        }
        for kind, value in limits.items():
            _soft, hard = resource.getrlimit(kind)
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(kind, (value, value))


def limit_open_files() -> None:
    """What a program gets, and the agent does not; see `Limits.apply_per_process`."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


def find_program(name: str, path: str) -> str:
    """The file a command name stands for, looked up as a shell would.

    Raises:
        FileNotFoundError: If there is none.
        PermissionError: If there is one, but it cannot be executed.
    """
    if not name:
        raise FileNotFoundError(errno.ENOENT, "the command is empty")
    candidates = [name] if "/" in name else [os.path.join(part or ".", name) for part in path.split(":")]
    refused = False
    for candidate in candidates:
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            refused = True
    if refused:
        raise PermissionError(errno.EACCES, f'exec: "{name}": permission denied')
    where = "no such file or directory" if "/" in name else "executable file not found in $PATH"
    raise FileNotFoundError(errno.ENOENT, f'exec: "{name}": {where}')


def send_signal(pid: int, number: int) -> None:
    """kill(2) that takes a process already gone for done."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_tree(root: int) -> None:
    """Kill a program, its descendants and its session.

    They are stopped first, so that none can fork away between being found and being killed. A program that left both
    its session and its parent (a double fork) is not found; it dies with the sandbox.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(root, signal.SIGSTOP)  # in one step for a whole fork bomb, which would win any race
    stopped: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        found = _family(root) - stopped
        if not found:
            break
        for pid in found:
            send_signal(pid, signal.SIGSTOP)
        stopped |= found
    with contextlib.suppress(ProcessLookupError):
        os.killpg(root, signal.SIGKILL)
    for pid in stopped:
        send_signal(pid, signal.SIGKILL)


def lower_priority() -> None:
    """Let the agent, and the user's own programs, go before this process."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)


def relieve_memory(limits: Limits) -> None:
    """Kill the process that holds most, or, where many hold much together, all of them."""
    held = {pid: _proportional_bytes(pid) for pid in _pids()}
    if sum(held.values()) > 2 * limits.memory_bytes:
        send_signal(-1, signal.SIGKILL)  # process 1 is the one process this spares
    elif held:
        send_signal(max(held, key=lambda pid: held[pid]), signal.SIGKILL)


def others_exist() -> bool:
    """Whether any process besides the agent is left."""
    return len(_pids()) > 0


def exceeded_limit(limits: Limits, disk: int) -> str | None:
    """The first shared limit that the sandbox is over (`memory`, `sockets`, `inodes`), or None.

    Args:
        limits: The limits.
        disk: A descriptor on the sandbox's writable file system.
    """
    pids = _pids()
    for measure in (_resident_bytes, _proportional_bytes):
        if sum(map(measure, pids)) <= limits.memory_bytes:
            break
    else:
        return "memory"
    if _sockets() > limits.sockets:
        return "sockets"
    usage = os.fstatvfs(disk)
    if usage.f_files - usage.f_ffree > limits.inodes:
        return "inodes"
    return None


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def _read(path: str) -> bytes:
    """A file of /proc, or nothing where its process has just gone or hides."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 8192)
        finally:
            os.close(descriptor)
    except OSError:
        return b""


def _resident_bytes(pid: int) -> int:
    """Memory of a process that is resident, and that of its page tables where it has mapped very much."""
    place = _living_thread(pid)
    fields = _read(f"{place}/statm").split()
    if len(fields) < 2:
        return 0
    tables = _page_table_bytes(place) if int(fields[0]) * _PAGE_BYTES > _MUCH_MAPPED_BYTES else 0
    return int(fields[1]) * _PAGE_BYTES + tables


def _proportional_bytes(pid: int) -> int:
    place = _living_thread(pid)
    for line in _read(f"{place}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024 + _page_table_bytes(place)
    return _resident_bytes(pid)  # a process that made itself undumpable is counted in full


def _living_thread(pid: int) -> str:
    """Where in /proc the memory of a process shows; not in its leader once that thread ended before the others."""
    place = f"/proc/{pid}"
    if not _read(f"{place}/statm").startswith(b"0 "):
        return place
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{place}/task"):
            if not _read(f"{place}/task/{name}/statm").startswith(b"0 "):
                return f"{place}/task/{name}"
    return place


def _page_table_bytes(place: str) -> int:
    for line in _read(f"{place}/status").splitlines():
        if line.startswith(b"VmPTE:"):
            return int(line.split()[1]) * 1024
    return 0


def _sockets() -> int:
    first = _read("/proc/net/sockstat").split(b"\n", 1)[0].split()
    return int(first[2]) if len(first) > 2 else 0


def _family(root: int) -> set[int]:
    parent_of: dict[int, int] = {}
    family = {root}
    for pid in _pids():
        # The command name is in parentheses and may hold anything, so fields are counted from its end.
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if len(fields) > 3:
            parent_of[pid] = int(fields[1])
            if int(fields[3]) == root:
                family.add(pid)
    grew = True
    while grew:
        grew = False
        for pid, parent in parent_of.items():
            if parent in family and pid not in family:
                family.add(pid)
                grew = True
    return {pid for pid in family if pid in parent_of}
