"""A cell: a process in namespaces of its own, which end with it.

The forker makes the namespaces and mounts what a cell sees, and goes back to its own when it has forked the process.
That process makes the user namespace and gives up what the worker may do, by steps that were prepared before: it is a
copy of the forker, and has to copy each page that it touches.

Process 1 of the cell's own process namespace is its supervisor, or, where the judge is outside, a program that waits
(`first_process.py`), beside the process of the completion: no program in the cell can kill or stop it, and the kernel
ends all of them with it. Cells share nothing: the user, process, mount, IPC and UTS namespaces of a cell are its own,
and so are `/tmp` and everything that can be written to, `/proc`, its terminals, and the inodes of the files that it can
read (see `Root`). The worker's mounts are not among those of a cell. A network namespace costs more than all the
others together: another cell uses it if the kernel counts no use of it (see `Network`). A cell has no capability when
it reads its request, and cannot make further namespaces.

A cell needs no system call filter of its own, which would be compiled for each cell, on all processors: it has the
worker's, and the calls which that filter has to leave to the worker need a capability.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix

from sandrl.judge.guest.child import PR_SET_NO_NEW_PRIVS, RLIMIT_DATA, ROOM_FOR_STACKS_BYTES
from sandrl.judge.guest.declarations import Libc
from sandrl.judge.guest.descriptors import write_all
from sandrl.judge.guest.first_process import write_executable
from sandrl.judge.guest.network import Network
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
from sandrl.judge.guest.steps import (
    BIND,
    DETACHED,
    NODEV,
    NOEXEC,
    NOSUID,
    PRIVATE,
    READ_ONLY,
    RECURSIVE,
    REMOUNT,
    TRIED,
    Step,
    Steps,
    making,
    mount,
    mounting,
    must,
    open_to_all,
    write_once,
)

NEW_MOUNTS, NEW_UTS, NEW_IPC = 0x20000, 0x4000000, 0x8000000
NEW_USER, NEW_PROCESSES = 0x10000000, 0x20000000
AT_CURRENT, AT_RECURSIVE = -100, 0x8000
MOUNT_SETATTR = 442
# The namespaces that a cell's process is born in, by their names in `/proc/PID/ns`.
OF_CELL = {"mnt": NEW_MOUNTS, "uts": NEW_UTS, "ipc": NEW_IPC, "pid": NEW_PROCESSES}
# Where requests, outputs and programs are, in a file system that only the worker sees.
SPOOL = "/tmp"
# Where the runtime shows a worker the parts of its root, each by itself (see `runtime/guest/rootfs.py`).
PARTS = "/run/sandrl/parts"
# The program that is process 1 of a cell whose judge is outside; what it is started with closes its streams.
FIRST_PROCESS = SPOOL + "/first"
CLOSED_STREAMS = [(posix.POSIX_SPAWN_CLOSE, descriptor) for descriptor in range(3)]
LARGEST_COPY_BYTES = 1 << 20
MOST_ENTRIES = 256
MADE_IN_CELLS = PARTS, "/proc", "/tmp", "/dev/pts"
DEVICE = 0o020000
CALLS_OF_MACHINE = {
    "x86_64": {"capset": 126, "brk": 12, "pivot_root": 155},
    "aarch64": {"capset": 91, "brk": 214, "pivot_root": 41},
}
PR_SET_PDEATHSIG, PR_SET_SECUREBITS, PR_SET_MM, PR_SET_MM_MAP = 1, 28, 35, 14
# Code, data, heap, stack, arguments and environment in `/proc/self/stat`, in the order of `struct prctl_mm_map`.
# The end of the heap is not there.
STARTS_AND_ENDS = 26, 27, 45, 46, 47, 0, 28, 48, 49, 50, 51
HEAP, END_OF_HEAP = 4, 5
# Being root gives nothing, neither at once nor by a change of user or a program; and none of this can be undone.
NO_ROOT_LOCKED = 0x01 | 0x02 | 0x04 | 0x08 | 0x20 | 0x40 | 0x80
CAPABILITY_VERSION_3 = 0x20080522
RLIMIT_NPROC, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_SIGPENDING = 6, 7, 8, 11
# What programs have in a sandbox of the local runtime (see `runtime/guest/processes.py`).
OPEN_FILES, LOCKED_BYTES, PENDING_SIGNALS = 512, 64 << 10, 1024
# Of files, all from a number on; the same on every machine.
CLOSE_RANGE, LAST_DESCRIPTOR = 436, 0x7FFFFFFF
# What a completion's process begins with besides standard input, if its judge is outside (see `outside.py`).
FILES_OF_COMPLETION = 6
# A set of signals: that a child has ended.
END_OF_CHILD = (1 << _signal.SIGCHLD - 1).to_bytes(128, "little")
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


def without_capabilities() -> Step:
    header = CAPABILITY_VERSION_3.to_bytes(4, "little") + bytes(4)
    return Step("syscall", CALLS_OF_MACHINE[posix.uname().machine]["capset"], header, bytes(24), about="capset")


# In `steps_into_cell`.
PLACE_OF_LAYOUT, PLACE_OF_FILES = 3, 17


def resource_limits(limits: CellLimits) -> list[Step]:
    """What a process and those it makes may use, as far as the kernel counts that for single processes."""
    return [
        # Refused where the worker may have less.
        Step("setrlimit", kind, value.to_bytes(8, "little") * 2, about=TRIED)
        for kind, value in (
            (RLIMIT_NPROC, limits.processes),
            (RLIMIT_DATA, limits.memory_bytes + ROOM_FOR_STACKS_BYTES),
            (RLIMIT_NOFILE, OPEN_FILES),
            (RLIMIT_MEMLOCK, LOCKED_BYTES),
            (RLIMIT_SIGPENDING, PENDING_SIGNALS),
        )
    ]


def steps_of_places(limits: CellLimits, places: list[tuple[str, bool]]) -> list[Step]:
    """Mounts what can be written to in a cell."""
    options = f"size={limits.disk_bytes},nr_inodes={limits.inodes},mode=755"
    steps = [mounting("tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, options)]
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


def maps_of_user(user: int, group: int) -> list[tuple[str, str]]:
    """The files that make a user the only one of a user namespace, and what to write to each."""
    maps = ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")
    return [(f"/proc/self/{name}", text) for name, text in (("setgroups", "deny"), *maps)]


def writing_of(path: str, text: str) -> list[Step]:
    """Writes to a file, which is standard input meanwhile: the lowest number that is free."""
    about = f"writing to {path}"
    return [
        Step("close", 0),
        Step("open", path.encode(), posix.O_WRONLY, about=about),
        Step("write", 0, text.encode(), len(text), about=about),
    ]


def steps_into_cell(user: int, group: int, folder: str, limits: CellLimits, has_first: bool) -> list[Step]:
    """Moves a forked process into a cell, in whose other namespaces it was born.

    All is mounted with the capabilities of the worker. The files that the process begins with get the numbers from 0
    on, or from 1 if process 1 is another, and `/dev/null` is standard input then.
    """
    numbers = range(1, 1 + FILES_OF_COMPLETION) if has_first else range(3)
    steps = [
        Step("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0),
        mounting("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC),
        # It shows locks of other cells and of the host.
        mounting("/dev/null", "/proc/locks", flags=BIND),
        # The file and the end of the heap are known when the process is forked.
        Step("prctl", PR_SET_MM, PR_SET_MM_MAP, about=TRIED),
        Step("unshare", NEW_USER, about="the user namespace of a cell"),
    ]
    for path, text in (*maps_of_user(user, group), ("/proc/sys/user/max_user_namespaces", "0")):
        steps += writing_of(path, text)
    steps += [Step("dup3", -1, number, posix.O_CLOEXEC if number > 2 else 0) for number in numbers]
    if has_first:
        steps += [Step("close", 0), Step("open", b"/dev/null", posix.O_RDONLY), Step("setsid")]
    return [
        *steps,
        Step("syscall", CLOSE_RANGE, numbers[-1] + 1, LAST_DESCRIPTOR, 0, about="close_range"),
        Step("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        Step("prctl", PR_SET_SECUREBITS, NO_ROOT_LOCKED, 0, 0, 0),
        without_capabilities(),
        *resource_limits(limits),
        Step("chdir", folder.encode()),
        Step("sigprocmask", _signal.SIG_UNBLOCK, END_OF_CHILD, 0),
    ]


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
            try:
                names = posix.listdir(path)
            except PermissionError:
                return  # what the worker must not read, a cell does not see: /root of an image
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


class Slot:
    """What cells use one after another: a root, whose locks end with each, and a network that nobody has used.

    The root is alone in a mount namespace, of which each cell has a copy.
    """

    network: Network | None = None

    def __init__(self, mounts: int) -> None:
        self.mounts = mounts


class Astray(Exception):
    """The forker is still in the namespaces of a cell."""


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
        layout = [int(words[place]) for place in STARTS_AND_ENDS]
        self.heap = layout[HEAP]
        as_bytes = [number.to_bytes(8, "little") for number in layout]
        self.layout = b"".join(as_bytes[:END_OF_HEAP]), b"".join(as_bytes[END_OF_HEAP + 1 :]) + bytes(12)
        self.places = writable_places()
        self.numbers = CALLS_OF_MACHINE[posix.uname().machine]
        self.slots: dict[int, Slot] = {}
        self.free: list[Slot] = []
        self.made = 0
        self.mounting = Steps(steps_of_places(limits, self.places))
        known = self.user, self.group, self.folder, limits
        # Where the process is the first of its cell, and where another one is.
        self.ways_in = [Steps(steps_into_cell(*known, has_first)) for has_first in (False, True)]
        self.returning = Steps([])

    def settle(self) -> None:
        """Moves this process, and so all cells, to where nothing can be written to but a new and empty `/tmp`.

        It goes on as a child, in namespaces that its user namespace owns: without that it could not come back from
        those of cells.
        """
        must(self.call, "unshare", NEW_USER | sum(OF_CELL.values()), about="a user namespace")
        for path, text in maps_of_user(self.user, self.group):
            write_once(path, text)
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
        steps = []
        for name, kind in OF_CELL.items():
            descriptor = posix.open(f"/proc/self/ns/{name}", posix.O_RDONLY | posix.O_CLOEXEC)
            steps.append(Step("setns", descriptor, kind, about="the return from a cell"))
        self.returning = Steps(steps)
        mount(self.call, "tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, "mode=700")
        posix.mkdir("/tmp/empty", 0o755)
        write_executable(FIRST_PROCESS)

    def fork(self, has_first: bool, descriptors: tuple[int, ...]) -> tuple[int, int]:
        """Forks a process in the namespaces of a new cell; returns its number, 0 in itself, and that of process 1.

        It is process 1 unless `has_first`. Its root and its network are those of a cell that has ended, or new ones. It
        begins with `descriptors` (see `steps_into_cell`). All is mounted here, and not in the forked process, which
        would copy whatever that touches; but that alone can mount the `/proc` of its process namespace.

        Raises:
            Astray: If this process cannot return from the namespaces of the cell.
        """
        if not self.free:
            self.free.append(self._new_slot())
        slot = self.free[-1]
        if slot.network is None:
            slot.network = Network(self.call)
        else:
            slot.network.enter()
        must(self.call, "unshare", NEW_PROCESSES, about="a process namespace")
        first, pid, program = 0, -1, -1
        try:
            if has_first:
                first = posix.posix_spawn(FIRST_PROCESS, (FIRST_PROCESS,), {}, file_actions=CLOSED_STREAMS)
            must(self.call, "setns", slot.mounts, NEW_MOUNTS, about="the root of a cell")
            must(self.call, "unshare", NEW_MOUNTS | NEW_UTS | NEW_IPC, about="the namespaces of a cell")
            self.mounting.take()
            program = self._own_program()
            self.entering = self.ways_in[has_first]
            self._prepare(self.entering, descriptors, program)
            pid = posix.fork()
        finally:
            if pid:
                self._return()
                if program >= 0:
                    posix.close(program)
            if pid < 0 and first:
                posix.kill(first, _signal.SIGKILL)
        if pid:
            first = first or pid
            self.slots[first] = self.free.pop()
        return pid, first

    def _new_slot(self) -> Slot:
        self.made += 1
        root = f"/tmp/root.{self.made}"
        posix.mkdir(root, 0o755)
        must(self.call, "unshare", NEW_MOUNTS, about="a mount namespace")
        try:
            Root(self.call, root, self.places, "/tmp/empty")
            # Only where one is in sight may cells mount theirs, which covers it.
            mount(self.call, "proc", root + "/proc", "proc", NOSUID | NODEV | NOEXEC)
            posix.chdir(root)
            # The old root covers the new one, and is taken away.
            must(self.call, "syscall", self.numbers["pivot_root"], b".", b".", about="pivot_root")
            must(self.call, "umount2", b".", DETACHED)
            mounts = posix.open("/proc/self/ns/mnt", posix.O_RDONLY | posix.O_CLOEXEC)
        finally:
            self._return()
        return Slot(mounts)

    def _return(self) -> None:
        try:
            self.returning.take()
        except OSError as error:
            raise Astray(str(error)) from error

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
        self.entering.take()

    def _own_program(self) -> int:
        # A cell's process has the worker's where the kernel refuses the change; it refuses it while the file itself is
        # mapped, and where an overlay shows it, another one is.
        try:
            return posix.open(self.program, posix.O_RDONLY)
        except OSError:
            return -1

    def _prepare(self, steps: Steps, descriptors: tuple[int, ...], program: int) -> None:
        # Of what a call returns, there are 32 bits.
        end = self.heap + (self.call("syscall", self.numbers["brk"], 0) - self.heap & 0xFFFFFFFF)
        before, after = self.layout
        layout = before + end.to_bytes(8, "little") + after
        layout += program.to_bytes(4, "little", signed=True)
        steps.arguments[PLACE_OF_LAYOUT] = PR_SET_MM, PR_SET_MM_MAP, layout, len(layout), 0
        for place, descriptor in enumerate(descriptors, PLACE_OF_FILES):
            steps.arguments[place] = descriptor, *steps.arguments[place][1:]


def streams_of(request: str, output: str, errors: str) -> list[tuple[str, int]]:
    """Where the standard streams of a cell's process are, and how to open them."""
    flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_APPEND
    return [(request, posix.O_RDONLY), (output, flags), (errors, flags)]


def write_from(descriptor: int, number: int, text: str) -> None:
    """Writes to a file that a process begins with, and which has that number from some step into its cell on."""
    try:
        posix.dup2(descriptor, number)
    except OSError:
        pass  # it has it
    write_all(number, text.encode("utf-8", "replace"))


def say_why_not(error: BaseException, errors: int) -> None:
    """Ends a process that could not enter its cell."""
    try:
        write_from(errors, 2, f"a cell could not be created: {error}")
    finally:
        posix._exit(CANNOT_BE_MADE)
