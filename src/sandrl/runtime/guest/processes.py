"""The processes of a sandbox: finding, limiting, killing and measuring them."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_ROUNDS = 8
_ROOM_FOR_STACKS_BYTES = 1 << 30
ADDRESS_SPACE_BYTES = 64 << 30
OPEN_FILES = 512
_OPEN_FILES_PER_CELL = 32
_PENDING_SIGNALS = 1_024
_LOCKED_BYTES = 64 << 10
_NICENESS = 5


class ProcessLimits:
    """What one sandbox may use.

    Args:
        memory_bytes: Of one process's private memory, and of all processes' resident memory together.
        sockets: How many may be open at once; their buffers are kernel memory that nothing else counts.
        in_group: Whether a control group counts its memory, that of the kernel on its behalf included.
        cells: How many cells it may hold at once, all of which the other limits are for; 0 if it is no worker.
        storage_bytes: Of its files on disk, and so of one file; 0 if all of them are in memory.
        open_files: How many one program may have open.
    """

    __slots__ = ("cells", "in_group", "inodes", "memory_bytes", "open_files", "processes", "sockets", "storage_bytes")

    def __init__(
        self,
        memory_bytes: int,
        processes: int,
        sockets: int,
        inodes: int,
        in_group: bool = False,
        cells: int = 0,
        storage_bytes: int = 0,
        open_files: int = OPEN_FILES,
    ) -> None:
        self.open_files = open_files
        self.storage_bytes = storage_bytes
        self.memory_bytes = memory_bytes
        self.processes = processes
        self.sockets = sockets
        self.inodes = inodes
        self.in_group = in_group
        self.cells = cells

    def per_user(self) -> dict[int, int]:
        """What the kernel counts per user, and for all users of a namespace together."""
        shares = max(self.cells, 1)
        return {
            resource.RLIMIT_NPROC: self.processes,
            resource.RLIMIT_MEMLOCK: shares * _LOCKED_BYTES,
            resource.RLIMIT_SIGPENDING: shares * _PENDING_SIGNALS,
        }

    def apply_per_process(self) -> None:
        """Set the limits the kernel keeps per process (or per user in this namespace), for good.

        The agent itself keeps its open files: descriptors in flight are counted per user of the host and held against
        the limit of whoever sends next, so it must have more room than any program of any sandbox.
        """
        limits = {
            **self.per_user(),
            # Data, not address space: threads and allocators reserve address space they never touch. A thread's stack
            # counts as data, and programs that recurse deeply ask for one of 512 MiB, of which they touch little.
            resource.RLIMIT_DATA: self.memory_bytes + _ROOM_FOR_STACKS_BYTES,
            # Bounds page tables, which nothing else counts: 1/512 of it at most.
            resource.RLIMIT_AS: ADDRESS_SPACE_BYTES,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_MSGQUEUE: 0,
        }
        if self.storage_bytes:
            limits[resource.RLIMIT_FSIZE] = self.storage_bytes
        for kind, value in limits.items():
            _soft, hard = resource.getrlimit(kind)
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(kind, (value, value))


def limit_open_files(cells: int = 0, wanted: int = OPEN_FILES) -> None:
    """What a program gets, and the agent does not; see `ProcessLimits.apply_per_process`.

    Args:
        cells: How many cells it may make, which are to have no more than programs elsewhere. It holds descriptors of
            each, and more than all programs of cells may have in flight.
        wanted: How many a program without cells may have open, if that is no more than half of what the agent may.
    """
    if cells:
        wanted = 2 * OPEN_FILES + cells * _OPEN_FILES_PER_CELL
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else max(OPEN_FILES, min(wanted, hard // 2))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def find_program(name: str, path: str) -> str:
    """The file a command name stands for, looked up as a shell would.

    Raises:
        FileNotFoundError: If there is none.
        PermissionError: If there is one, but it cannot be executed.
    """
    if not name:
        raise FileNotFoundError(errno.ENOENT, "the command is empty")
    candidates = [name] if "/" in name else [os.path.join(part or ".", name) for part in path.split(":")]
    files = list(filter(os.path.isfile, candidates))
    for file in files:
        if os.access(file, os.X_OK):
            return file
    if files:
        raise PermissionError(errno.EACCES, f'exec: "{name}": permission denied')
    where = "no such file or directory" if "/" in name else "executable file not found in $PATH"
    raise FileNotFoundError(errno.ENOENT, f'exec: "{name}": {where}')


def send_signal(pid: int, number: int) -> None:
    """kill(2) of a process, or of the group `-pid`, that takes one already gone for done."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_tree(root: int) -> None:
    """Kill a program, its descendants and its session.

    They are stopped first, so that none can fork away between being found and being killed. A program that left both
    its session and its parent (a double fork) is not found; it dies with the sandbox.
    """
    send_signal(-root, signal.SIGSTOP)  # in one step for a whole fork bomb, which would win any race
    stopped: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        found = _family(root) - stopped
        if not found:
            break
        for pid in found:
            send_signal(pid, signal.SIGSTOP)
        stopped |= found
    for pid in (-root, *stopped):
        send_signal(pid, signal.SIGKILL)


def lower_priority() -> None:
    """Let the agent, and the user's own programs, go before this process."""
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)


def pids() -> list[int]:
    """All processes of the sandbox besides the agent."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def read(path: str) -> bytes:
    """A file of /proc, or nothing where its process has just gone or hides."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 8192)
        finally:
            os.close(descriptor)
    except OSError:
        return b""


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, shared pages included; nothing if it has just ended."""
    fields = read(f"{place_of(pid)}/statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def proportional_bytes(pid: int) -> int:
    """Resident memory of a process, with a page that n processes share counted as an n-th."""
    for line in read(f"{place_of(pid)}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return resident_bytes(pid)  # a process that cannot be looked into is counted in full


def place_of(pid: int) -> str:
    """Where in /proc the memory of a process shows; not in its leader once that thread ended before the others."""
    place = f"/proc/{pid}"
    if not read(f"{place}/statm").startswith(b"0 "):
        return place
    with contextlib.suppress(OSError):
        for name in os.listdir(f"{place}/task"):
            if not read(f"{place}/task/{name}/statm").startswith(b"0 "):
                return f"{place}/task/{name}"
    return place


def sockets(network_of: int | str = "self") -> int:
    first = read(f"/proc/{network_of}/net/sockstat").split(b"\n", 1)[0].split()
    return int(first[2]) if len(first) > 2 else 0


def _family(root: int) -> set[int]:
    parent_of: dict[int, int] = {}
    family = {root}
    for pid in pids():
        # The command name is in parentheses and may hold anything, so fields are counted from its end.
        fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
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
