"""A container as services have them: its programs are root's, there are many users, and no further namespaces.

`python -m tests.support.containers COMMAND...` runs a command in one. Nothing in it reaches the machine: it has its own
users, processes, network and System V objects, and can write to nothing but file systems in memory.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

NEW_NAMESPACES = 0x20000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
PRIVATE, READ_ONLY, BIND, NOSUID, NODEV, RECURSIVE = 0x40000, 0x1, 0x1000, 0x2, 0x4, 0x4000
MOUNT_SETATTR = 442
PR_SET_PDEATHSIG, SIGKILL = 1, 9
USERS = 65_536
PYTHON = "/mnt/bin/python3"
"""The interpreter of the machine, where every user of the container can read it."""


def can_make_one() -> bool:
    """Whether this process may: root alone may map as many users."""
    return os.getuid() == 0 and len(Path("/proc/self/uid_map").read_text().split()) == 3


def _main(command: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def must(result: int) -> None:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
        must(libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()))

    unshared, mapped = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.read(unshared[0], 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 0 {USERS}")
        os.write(mapped[1], b".")
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
    must(libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
    must(libc.unshare(NEW_NAMESPACES))
    os.write(unshared[1], b".")
    os.read(mapped[0], 1)
    inner = os.fork()
    if inner:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]) & 0xFF)
    must(libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
    mount("none", "/", flags=RECURSIVE | PRIVATE)
    mount(sys.base_prefix, "/mnt", flags=BIND)
    read_only = READ_ONLY.to_bytes(8, "little") + bytes(24)
    must(libc.syscall(MOUNT_SETATTR, -100, b"/", 0x8000, read_only, 32))
    mount("proc", "/proc", "proc", NOSUID | NODEV)
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        mount("tmpfs", place, "tmpfs", NOSUID | NODEV, "mode=1777")
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")
    os.chdir("/tmp")
    os.execvp(command[0], command)


if __name__ == "__main__":
    _main(sys.argv[1:])
