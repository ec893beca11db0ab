"""A cell: a process that was just forked isolates itself in namespaces of its own, which end with it.

Process 1 of the cell's own process namespace is its supervisor, or, where the judge is outside, a program that waits
(`first_process.py`), beside the process of the completion: no program in the cell can kill or stop it, and the kernel
ends all of them with it. Cells share nothing: the user, process, mount, IPC
and UTS namespaces of a cell are its own, and so are `/tmp` and everything that can be written to, `/proc`, its
terminals, and the inodes of the files that it can read (see `Root`). A network namespace costs more than all the others
together: another cell uses it if the kernel counts no use of it (see `Network`). A cell has no capability when it
reads its request, and cannot make further namespaces.

A cell needs no system call filter of its own, which would be compiled for each cell, on all processors: it has the
worker's, and the calls which that filter has to leave to the worker need a capability.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
from collections.abc import Iterable

from sandrl.judge.guest.child import PR_SET_NO_NEW_PRIVS, RLIMIT_DATA, ROOM_FOR_STACKS_BYTES
from sandrl.judge.guest.declarations import Libc
from sandrl.judge.guest.descriptors import write_all
from sandrl.judge.guest.first_process import write_executable
from sandrl.judge.guest.places import (
    DIRECTORY,
    KIND_OF_FILE,
    LINK,
    PLAIN_FILE,
    is_directory,
    kind_of,
    names_in,
    own_places,
)

NEW_MOUNTS, NEW_UTS, NEW_IPC = 0x20000, 0x4000000, 0x8000000
NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 0x1, 0x2, 0x4, 0x8, 0x1000, 0x4000, 0x40000
AT_CURRENT, AT_RECURSIVE = -100, 0x8000
REMOUNT = 0x20
MOUNT_SETATTR = 442
# Where requests, outputs and programs are, in a file system that only the worker sees.
SPOOL = "/tmp"
# Where the runtime shows a worker the parts of its root, each by itself (see `runtime/guest/rootfs.py`).
PARTS = "/run/sandrl/parts"
# The program that is process 1 of a cell whose judge is outside.
FIRST_PROCESS = SPOOL + "/first"
LARGEST_COPY_BYTES = 1 << 20
MOST_ENTRIES = 256
MADE_IN_CELLS = PARTS, "/proc", "/tmp", "/dev/pts"
DEVICE = 0o020000
CALLS_OF_MACHINE = {
    "x86_64": {"capset": 126, "brk": 12},
    "aarch64": {"capset": 91, "brk": 214},
}
PR_SET_PDEATHSIG, PR_SET_SECUREBITS, PR_SET_MM, PR_SET_MM_MAP = 1, 28, 35, 14
# Code, data, heap, stack, arguments and environment in `/proc/self/stat`, in the order of `struct prctl_mm_map`.
# The end of the heap is not there.
STARTS_AND_ENDS = 26, 27, 45, 46, 47, 0, 28, 48, 49, 50, 51
HEAP = 4
# Being root gives nothing, neither at once nor by a change of user or a program; and none of this can be undone.
NO_ROOT_LOCKED = 0x01 | 0x02 | 0x04 | 0x08 | 0x20 | 0x40 | 0x80
CAPABILITY_VERSION_3 = 0x20080522
RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_SIGPENDING = 6, 7, 8, 11
# What programs have in a sandbox of the local runtime (see `runtime/guest/processes.py`).
OPEN_FILES, LOCKED_BYTES, PENDING_SIGNALS = 512, 64 << 10, 1024
AF_INET, SOCK_DGRAM_CLOEXEC, SIOCSIFFLAGS, IFF_UP_RUNNING = 2, 0x80002, 0x8914, 0x41
SOCKET_BUFFER_BYTES = 256 << 10
CANNOT_BE_MADE = 77  # exit status of a cell that could not be made


class CellLimits:
    """What one cell may use, with all its processes and files together; threads are counted as processes.

    A control group counts its memory if `in_group`; that of its worker counts all cells. With `fresh_network`, no
    network namespace serves two cells.
    """

    in_group = False
    cells = 0

    def __init__(
        self, memory_bytes: int, disk_bytes: int, inodes: int, processes: int, sockets: int, fresh_network: int
    ) -> None:
        self.memory_bytes = memory_bytes
        self.disk_bytes = disk_bytes
        self.inodes = inodes
        self.processes = processes
        self.sockets = sockets
        self.fresh_network = fresh_network


class Step:
    """A call of libc, and what is said of it if it fails.

    The steps into a cell are made before the process that takes them is forked: whatever that touches, it copies.
    """

    def __init__(self, name: str, *arguments: int | bytes, about: str = "") -> None:
        self.call = name, *arguments
        self.about = about or name


def take(call: Libc, steps: Iterable[Step]) -> None:
    for step in steps:
        if call(*step.call) < 0:
            raise OSError(f"{step.about} is refused")


def must(call: Libc, name: str, *arguments: int | bytes, about: str = "") -> int:
    """Calls libc; raises an OSError that names the call, or what it is about, if it fails."""
    result = call(name, *arguments)
    if result < 0:
        raise OSError(f"{about or name} is refused")
    return result


def without_capabilities() -> Step:
    header = CAPABILITY_VERSION_3.to_bytes(4, "little") + bytes(4)
    return Step("syscall", CALLS_OF_MACHINE[posix.uname().machine]["capset"], header, bytes(24), about="capset")


def resource_limits(limits: CellLimits) -> list[Step]:
    """What a process and those it makes may use, as far as the kernel counts that for single processes."""
    return [
        Step("setrlimit", kind, value.to_bytes(8, "little") * 2)
        for kind, value in (
            (RLIMIT_NPROC, limits.processes),
            (RLIMIT_DATA, limits.memory_bytes + ROOM_FOR_STACKS_BYTES),
            (RLIMIT_NOFILE, OPEN_FILES),
            (RLIMIT_MEMLOCK, LOCKED_BYTES),
            (RLIMIT_SIGPENDING, PENDING_SIGNALS),
        )
    ]


def mounting(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> Step:
    words = source.encode(), target.encode(), kind.encode()
    return Step("mount", *words, flags, options.encode(), about=f"mount {kind or source} on {target}")


def mount(call: Libc, source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    take(call, [mounting(source, target, kind, flags, options)])


def making(path: str) -> Step:
    return Step("mkdir", path.encode(), 0o755, about=f"mkdir {path}")


def open_to_all(path: str) -> Step:
    return Step("chmod", path.encode(), 0o1777, about=f"chmod {path}")


def steps_of_places(limits: CellLimits, places: list[tuple[str, bool]]) -> list[Step]:
    """Mounts what can be written to in a cell, and its `/proc`."""
    options = f"size={limits.disk_bytes},nr_inodes={limits.inodes},mode=755"
    steps = [
        mounting("tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, options),
        mounting("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC),
        # It shows locks of other cells and of the host.
        mounting("/dev/null", "/proc/locks", flags=BIND),
    ]
    for number, (path, keeps) in enumerate(places):
        if path == "/tmp":
            continue
        steps.append(making(f"/tmp/{number}"))
        if keeps:
            steps.append(making(f"/tmp/{number}.work"))
            layers = f"lowerdir={path},upperdir=/tmp/{number},workdir=/tmp/{number}.work,userxattr"
            steps.append(mounting("overlay", path, "overlay", NOSUID | NODEV, layers))
        else:
            steps.append(mounting(f"/tmp/{number}", path, flags=BIND))
        if path in ("/var/tmp", "/dev/shm"):
            steps.append(open_to_all(path))
    # Last, because it covers the others' directories.
    steps += [making("/tmp/tmp"), mounting("/tmp/tmp", "/tmp", flags=BIND), open_to_all("/tmp")]
    options = "newinstance,ptmxmode=0666,mode=0600,max=16"
    return [*steps, mounting("devpts", "/dev/pts", "devpts", NOSUID | NOEXEC, options)]


def write_once(path: str, text: str) -> None:
    descriptor = posix.open(path, posix.O_WRONLY)
    try:
        posix.write(descriptor, text.encode())
    finally:
        posix.close(descriptor)


def be_only_user(user: int, group: int) -> None:
    write_once("/proc/self/setgroups", "deny")
    write_once("/proc/self/uid_map", f"{user} {user} 1")
    write_once("/proc/self/gid_map", f"{group} {group} 1")


def writable_places() -> list[tuple[str, bool]]:
    """The directories that programs may write to, and whether what is in each must stay in sight."""
    emptied = "/tmp", "/var/tmp", "/dev/shm"
    found = [(path, False) for path in emptied if is_directory(path)]
    for path in own_places():
        if path not in [known for known, _ in found]:
            found.append((path, bool(names_in(path))))
    return found


def make_directories(path: str) -> None:
    for end in [place for place, character in enumerate(path) if character == "/" and place] + [len(path)]:
        if not kind_of(path[:end]):
            posix.mkdir(path[:end], 0o755)


class Root:
    """The files that cells see, one after another: those of the worker, with inodes of their own.

    The kernel keeps locks, leases and watches with the inode of a file. An overlay file system has inodes of its own
    over the same files. None can be made of a directory in which something is mounted, because it would show what is
    covered; such a directory is made anew, and its entries are shown one by one. Where the kernel refuses an overlay,
    or would need too many, cells share the inodes. They always share those of the devices.
    """

    def __init__(self, call: Libc, path: str, places: list[tuple[str, bool]], empty: str) -> None:
        self.call = call
        self.path = path
        self.places = dict(places)
        self.empty = empty
        try:
            self.parts = {name.replace("%", "/"): f"{PARTS}/{name}" for name in posix.listdir(PARTS)}
        except OSError:
            self.parts = {}
        mount(call, path, path, flags=BIND)
        for name in posix.listdir("/"):
            self._show(f"/{name}")
        for place in sorted(self.parts):
            make_directories(path + place)
            if not self._overlay(self.parts[place], path + place):
                mount(call, self.parts[place], path + place, flags=BIND)
        mount(call, "none", path, flags=REMOUNT | BIND | READ_ONLY | NOSUID | NODEV)

    def _overlay(self, source: str, target: str) -> bool:
        if any(character in source for character in ":,\\") or kind_of(source) != DIRECTORY:
            return False
        try:
            options = f"lowerdir={source}:{self.empty}"
            mount(self.call, "overlay", target, "overlay", READ_ONLY | NOSUID | NODEV, options)
        except OSError:
            return False
        return True

    def _show(self, path: str) -> None:
        target, kind = self.path + path, kind_of(path)
        if kind == LINK:
            posix.symlink(posix.readlink(path), target)
        elif kind == DIRECTORY:
            posix.mkdir(target, 0o755)
            if path in self.places or path in self.parts or path in MADE_IN_CELLS:
                if self.places.get(path):
                    mount(self.call, path, target, flags=BIND)
                return
            names = posix.listdir(path)
            # An overlay has no devices.
            if not names or (path != "/dev" and self._overlay(path, target)):
                return
            if len(names) > MOST_ENTRIES:
                mount(self.call, path, target, flags=BIND | RECURSIVE)
                return
            for name in names:
                self._show(f"{path}/{name}")
        elif kind in (PLAIN_FILE, DEVICE):
            self._show_file(path, target)

    def _show_file(self, path: str, target: str) -> None:
        status = posix.stat(path)
        text = None
        if status.st_mode & KIND_OF_FILE == PLAIN_FILE and status.st_size <= LARGEST_COPY_BYTES:
            try:
                source = posix.open(path, posix.O_RDONLY)
                text = posix.read(source, LARGEST_COPY_BYTES)
                posix.close(source)
            except OSError:
                pass
        descriptor = posix.open(target, posix.O_WRONLY | posix.O_CREAT | posix.O_EXCL, status.st_mode & 0o777)
        write_all(descriptor, text or b"")
        posix.close(descriptor)
        if text is None:
            mount(self.call, path, target, flags=BIND)


# What the kernel counts in each network namespace: packets by interface, and what was asked of each protocol.
NETWORK_COUNTERS = "dev", "snmp", "snmp6"
COUNTERS_BYTES = 1 << 16


class Network:
    """A network namespace with a loopback interface, for one cell at a time.

    It serves another cell if its counters are what they were when it was made, and no socket of it is left: so nothing
    was sent in it, nor tried. All that cells can change of it otherwise needs a capability, which they do not have.
    """

    def __init__(self, call: Libc) -> None:
        must(call, "unshare", NEW_NETWORK, about="a network namespace")
        self.call = call
        self.descriptor = posix.open("/proc/self/ns/net", posix.O_RDONLY | posix.O_CLOEXEC)
        socket = must(call, "socket", AF_INET, SOCK_DGRAM_CLOEXEC, 0)
        up = b"lo".ljust(16, b"\0") + IFF_UP_RUNNING.to_bytes(2, "little") + bytes(22)
        must(call, "ioctl", socket, SIOCSIFFLAGS, up, about="the loopback interface")
        posix.close(socket)
        for name, value in (
            ("tcp_rmem", f"4096 65536 {SOCKET_BUFFER_BYTES}"),
            ("tcp_wmem", f"4096 65536 {SOCKET_BUFFER_BYTES}"),
            # A closed connection that waits keeps its port from the next case of a program, which can see it, too.
            ("tcp_max_tw_buckets", "0"),
        ):
            try:
                write_once(f"/proc/sys/net/ipv4/{name}", value)
            except OSError:
                pass  # what one kernel keeps per namespace, another does not
        self.counters = self.read_counters()

    def enter(self) -> None:
        must(self.call, "setns", self.descriptor, NEW_NETWORK, about="a network namespace")

    def read_counters(self) -> list[bytes]:
        # Of what is said of sockets, the first line alone is about this namespace.
        counters = [read_whole("/proc/self/net/sockstat").partition(b"\n")[0]]
        return counters + [read_whole(f"/proc/self/net/{name}") for name in NETWORK_COUNTERS]

    def is_unused(self) -> bool:
        self.enter()
        return self.counters[0] == b"sockets: used 0" and self.read_counters() == self.counters

    def close(self) -> None:
        posix.close(self.descriptor)


def read_whole(path: str) -> bytes:
    """A file of the kernel; none if it is not there, or longer than the kernel's counters are."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY)
    except OSError:
        return b""
    try:
        return posix.read(descriptor, COUNTERS_BYTES)
    finally:
        posix.close(descriptor)


class Slot:
    """What cells use one after another: a root, whose locks end with each, and a network that nobody has used."""

    network: Network | None = None

    def __init__(self, root: str) -> None:
        self.root = root


class Cells:
    """Makes cells: what all of them have in common is found out once."""

    def __init__(self, call: Libc, limits: CellLimits) -> None:
        self.call = call
        self.limits = limits
        self.user, self.group = posix.getuid(), posix.getgid()
        self.folder = posix.getcwd()
        self.program = posix.readlink("/proc/self/exe")
        descriptor = posix.open("/proc/self/stat", posix.O_RDONLY)
        words = [b"0"] * 3 + posix.read(descriptor, 4096).rpartition(b")")[2].split()
        posix.close(descriptor)
        self.layout = [int(words[place]) for place in STARTS_AND_ENDS]
        self.places = writable_places()
        self.numbers = CALLS_OF_MACHINE[posix.uname().machine]
        self.isolating = [
            Step("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0),
            Step("unshare", NEW_MOUNTS | NEW_UTS | NEW_IPC, about="the namespaces of a cell"),
        ]
        self.mounting = steps_of_places(limits, self.places)
        self.renouncing = [
            Step("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            Step("prctl", PR_SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0),
            without_capabilities(),
        ]
        self.limiting = resource_limits(limits)
        self.root = ""
        self.slots: dict[int, Slot] = {}
        self.free: list[Slot] = []
        self.made = 0
        self.own_processes = -1

    def settle(self) -> None:
        """Moves this process, and so all cells, to where nothing can be written to but a new and empty `/tmp`.

        It goes on as a child, in a process namespace that its user namespace owns: without that it could not come back
        from those of cells.
        """
        must(self.call, "unshare", NEW_USER | NEW_MOUNTS | NEW_PROCESSES, about="a user namespace")
        be_only_user(self.user, self.group)
        pid = posix.fork()
        if pid:
            posix._exit(posix.waitpid(pid, 0)[1] and 1)
        must(self.call, "prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        mount(self.call, "none", "/", flags=RECURSIVE | PRIVATE)
        read_only = READ_ONLY.to_bytes(8, "little")
        arguments = AT_CURRENT, b"/", AT_RECURSIVE, read_only + bytes(24), 32
        must(self.call, "syscall", MOUNT_SETATTR, *arguments, about="mount_setattr on /")
        # Cells write their user ids there.
        arguments = AT_CURRENT, b"/proc", 0, bytes(8) + read_only + bytes(16), 32
        must(self.call, "syscall", MOUNT_SETATTR, *arguments, about="mount_setattr on /proc")
        mount(self.call, "proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
        self.own_processes = posix.open("/proc/self/ns/pid", posix.O_RDONLY | posix.O_CLOEXEC)
        mount(self.call, "tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, "mode=700")
        posix.mkdir("/tmp/empty", 0o755)
        write_executable(FIRST_PROCESS)

    def fork(self, has_first: bool) -> tuple[int, int]:
        """Forks a process in a new process namespace; returns its number, 0 in itself, and that of process 1.

        It is process 1 unless `has_first`.

        Its root and its network are those of a cell that has ended, or new ones.
        """
        if not self.free:
            self.made += 1
            root = f"/tmp/root.{self.made}"
            posix.mkdir(root, 0o755)
            Root(self.call, root, self.places, "/tmp/empty")
            self.free.append(Slot(root))
        slot = self.free[-1]
        self.root = slot.root
        if slot.network is None:
            slot.network = Network(self.call)
        else:
            slot.network.enter()
        must(self.call, "unshare", NEW_PROCESSES, about="a process namespace")
        first, pid = 0, -1
        try:
            if has_first:
                closed = [(posix.POSIX_SPAWN_CLOSE, descriptor) for descriptor in range(3)]
                first = posix.posix_spawn(FIRST_PROCESS, (FIRST_PROCESS,), {}, file_actions=closed)
            pid = posix.fork()
        finally:
            if pid:
                must(self.call, "setns", self.own_processes, NEW_PROCESSES, about="the process namespace of a worker")
            if pid < 0 and first:
                posix.kill(first, _signal.SIGKILL)
        first = first or pid
        if pid:
            self.slots[first] = self.free.pop()
        return pid, first

    def forget(self, first: int) -> None:
        slot = self.slots.pop(first, None)
        if slot is None:
            return
        if slot.network is not None and (self.limits.fresh_network or not slot.network.is_unused()):
            slot.network.close()
            slot.network = None
        self.free.append(slot)

    def enter(self) -> None:
        """Moves the forked process into its cell; raises OSError if a step of it is refused."""
        call = self.call
        take(call, self.isolating)
        outside = posix.open("/", posix.O_RDONLY)
        posix.chroot(self.root)
        self._own_program()
        take(call, self.mounting)
        # All is mounted with the capabilities of the worker; a user namespace is made of no process with another root.
        posix.fchdir(outside)
        posix.chroot(".")
        posix.close(outside)
        must(call, "unshare", NEW_USER, about="the user namespace of a cell")
        posix.chroot(self.root)
        be_only_user(self.user, self.group)
        write_once("/proc/sys/user/max_user_namespaces", "0")
        take(call, self.renouncing)
        for step in self.limiting:
            call(*step.call)  # refused where the worker may have less
        posix.chdir(self.folder)

    def _own_program(self) -> None:
        # It stays the worker's where the kernel refuses the change; it refuses it while the file itself is mapped, and
        # where an overlay shows it, another one is.
        try:
            program = posix.open(self.program, posix.O_RDONLY)
        except OSError:
            return
        heap = self.layout[HEAP]
        # Of what a call returns, there are 32 bits.
        end = heap + (self.call("syscall", self.numbers["brk"], 0) - heap & 0xFFFFFFFF)
        layout = b"".join((number or end).to_bytes(8, "little") for number in self.layout)
        layout += bytes(12) + program.to_bytes(4, "little")
        self.call("prctl", PR_SET_MM, PR_SET_MM_MAP, layout, len(layout), 0)
        posix.close(program)


def take_streams(request: str, output: str, errors: str) -> None:
    """Makes files the standard streams of this process."""
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_APPEND
    opened = posix.open(request, posix.O_RDONLY), posix.open(output, flags, 0o600), posix.open(errors, flags, 0o600)
    for target, source in enumerate(opened):
        posix.dup2(source, target)
        posix.close(source)


def say_why_not(error: BaseException) -> None:
    try:
        write_all(2, f"a cell could not be created: {error}".encode("utf-8", "replace"))
    finally:
        posix._exit(CANNOT_BE_MADE)
