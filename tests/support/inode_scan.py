"""Looks for kernel objects with which programs in different sandboxes or cells notice one another.

Its text runs in several of them at once. Each takes hold of every object that it can have, for a while, looks whether
others hold theirs, and says which objects told it of another. It is one file that uses only the standard library.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
NUMBERS = {
    "futex": (202, 98), "fanotify_init": (300, 262), "shmget": (29, 194), "add_key": (248, 217),
    "request_key": (249, 218), "mq_open": (240, 180), "inotify_init1": (294, 26), "perf_event_open": (298, 241),
}  # fmt: skip
F_SETLEASE, F_NOTIFY, F_OFD_GETLK, F_OFD_SETLK = 1024, 1026, 36, 37
LOCK = "hhqqi4x"
DN_EVENTS = 0x8000003F
NAME = "sandrl-scan"
KEY = 0x53414E44
SECONDS = 6.0
STARTING_POINTS = ("/", "/dev", "/etc", "/opt", "/proc", "/run", "/sys", "/usr", "/usr/local", sys.prefix)
SOME = 40


def call(name: str, *arguments: object) -> int:
    result = LIBC.syscall(ctypes.c_long(NUMBERS[name][0 if X86 else 1]), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return int(result)


def lines_of(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def readable_paths() -> Iterator[str]:
    """Files, directories and devices that another sandbox could see, too: some of each place."""
    yield from (sys.executable, os.path.realpath(sys.executable), os.__file__, "/proc/self/exe")
    yield from (line[line.index("/") :] for line in lines_of("/proc/self/maps") if "/" in line)
    yield from (line.split()[4] for line in lines_of("/proc/self/mountinfo"))
    for top in STARTING_POINTS:
        yield top
        for count, (folder, folders, files) in enumerate(os.walk(top)):
            folders.sort()
            yield from (os.path.join(folder, name) for name in sorted(files)[:2])
            yield folder
            if count > SOME:
                break


def opened() -> list[tuple[str, int]]:
    """Each inode once, with a descriptor to read it."""
    found: dict[tuple[int, int], tuple[str, int]] = {}
    for path in dict.fromkeys(readable_paths()):
        if path.startswith("/proc/") and path != "/proc/self/exe":
            continue
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in found or stat.S_ISFIFO(status.st_mode) or len(found) > 350:
                continue
            found[status.st_dev, status.st_ino] = path, os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            continue
    return list(found.values())


def group_of(path: str) -> str:
    """A device, or a file that was open before the cell was made, is told apart from the others."""
    if stat.S_ISCHR(os.stat(path).st_mode):
        return " of a device"
    return " of the own program" if path == "/proc/self/exe" else ""


class Scan:
    """What told of others so far."""

    def __init__(self) -> None:
        self.crossings: dict[str, str] = {}
        self.files = opened()
        self.kept: list[object] = []

    def found(self, what: str, detail: object = "") -> None:
        self.crossings.setdefault(what, str(detail))

    def attempt(self, what: str, action: Callable[[], object]) -> None:
        """Tries an object; what `action` returns, if anything, is how it tells of others."""
        try:
            detail = action()
        except (OSError, ValueError):
            return
        if detail:
            self.found(what, detail)

    # Locks: whoever has none refused holds them for the others to see.
    def locks(self) -> None:
        for path, descriptor in self.files:
            group = group_of(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno == errno.EWOULDBLOCK:
                    self.found("flock" + group, path)
            for name, get, put in (
                ("lock of a process", fcntl.F_GETLK, fcntl.F_SETLK),
                ("lock of a descriptor", F_OFD_GETLK, F_OFD_SETLK),
            ):
                # Each kind in a range of its own, so that a program does not meet itself.
                start = 0 if name == "lock of a process" else 1 << 30
                query = struct.pack(LOCK, fcntl.F_WRLCK, 0, start, 1 << 29, 0)
                try:
                    if struct.unpack(LOCK, fcntl.fcntl(descriptor, get, query))[0] != fcntl.F_UNLCK:
                        self.found(name + group, path)
                    fcntl.fcntl(descriptor, put, struct.pack(LOCK, fcntl.F_RDLCK, 0, start, 1, 0))
                except OSError:
                    pass

    def takes(self, descriptor: int, command: int, argument: int) -> str:
        fcntl.fcntl(descriptor, command, argument)
        return "can be had"

    def leases_and_watches(self) -> None:
        for _, descriptor in self.files:
            for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
                self.attempt("lease", partial(self.takes, descriptor, F_SETLEASE, kind))
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                self.attempt("dnotify", partial(self.takes, descriptor, F_NOTIFY, DN_EVENTS))
        self.attempt("inotify", lambda: call("inotify_init1", 0) and "can be had")
        self.attempt("fanotify", lambda: call("fanotify_init", 0, 0) and "can be had")
        self.attempt("counters", lambda: call("perf_event_open", bytes(128), 0, -1, -1, 0) and "can be had")

    def table_of_locks(self) -> None:
        """A lock of a descriptor, of a file of its own, and whether the table shows others of the kind."""
        own = os.open(f"/tmp/{NAME}", os.O_RDWR | os.O_CREAT)
        self.kept.append(own)
        place = os.getpid() + int.from_bytes(os.urandom(4), "little")
        fcntl.fcntl(own, F_OFD_SETLK, struct.pack(LOCK, fcntl.F_WRLCK, 0, place, 1, 0))
        for _ in range(int(SECONDS / 0.2)):
            for line in lines_of("/proc/locks"):
                if "OFDLCK" in line and "WRITE" in line and f" {place} " not in line:
                    self.found("/proc/locks", line)
            time.sleep(0.2)

    def futexes(self) -> None:
        """Waits on a page of a shared file, in turns with waking others who wait there."""
        with open(os.__file__, "rb") as file:
            page = mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
        address = address_of(page)
        (value,) = struct.unpack("I", page[:4])
        limit = struct.pack("qq", 0, 20_000_000)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            try:
                if os.urandom(1)[0] % 2:
                    call("futex", ctypes.c_void_p(address), 0, ctypes.c_uint(value), limit, None, 0)
                    self.found("futex", "it was woken")
                elif call("futex", ctypes.c_void_p(address), 1, 1, None, None, 0) > 0:
                    self.found("futex", "it woke another")
            except OSError:
                pass
            time.sleep(0.001)

    def names(self) -> None:
        """Objects with a name or key of the whole machine."""

        def abstract() -> str:
            server = socket.socket(socket.AF_UNIX)
            try:
                server.bind("\0" + NAME)
            except OSError as error:
                return "in use" if error.errno == errno.EADDRINUSE else ""
            self.kept.append(server)
            return ""

        def port() -> str:
            server = socket.socket()
            try:
                server.bind(("127.0.0.1", 48_611))
            except OSError as error:
                return "in use" if error.errno == errno.EADDRINUSE else ""
            self.kept.append(server)
            return ""

        def queue() -> str:
            try:
                self.kept.append(call("mq_open", NAME.encode(), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, None))
            except OSError as error:
                return "exists" if error.errno == errno.EEXIST else ""
            return ""

        def key() -> str:
            call("request_key", b"user", NAME.encode(), None, 0)
            return "exists"

        self.attempt("abstract socket", abstract)
        self.attempt("port", port)
        self.attempt("message queue", queue)
        self.attempt("key", key)
        self.attempt("key", lambda: call("add_key", b"user", NAME.encode(), b"x", 1, -4) and "")
        self.attempt("shared memory", lambda: call("shmget", KEY, 4096, 0) and "exists")
        self.attempt("shared memory", lambda: call("shmget", KEY, 4096, 0o1600) and "")

    def attributes(self) -> None:
        for path, descriptor in self.files:
            self.attempt("attribute", partial(os.getxattr, descriptor, "user.sandrl"))
            self.attempt("attribute", partial(os.setxattr, descriptor, "user.sandrl", b"x"))
            if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
                try:
                    os.utime(descriptor, (1, 1))
                    self.found("time", path)
                except OSError:
                    pass


def address_of(page: mmap.mmap) -> int:
    """Where a mapping that can only be read begins."""
    for line in lines_of("/proc/self/maps"):
        span, rights = line.split()[:2]
        if rights == "r--s" and line.rstrip().endswith("os.py"):
            return int(span.split("-")[0], 16)
    raise OSError(errno.ENOENT, "mapping")


def scan() -> str:
    for number in (signal.SIGIO, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    it = Scan()
    it.names()
    it.attributes()
    it.leases_and_watches()
    others = [threading.Thread(target=work) for work in (it.futexes, it.table_of_locks)]
    for other in others:
        other.start()
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        it.locks()
        time.sleep(0.2)
    for other in others:
        other.join()
    return ", ".join(sorted(it.crossings)) + f"; {len(it.files)} files"
