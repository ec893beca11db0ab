"""Tries, step by step, all that a worker does to make a cell; run in a sandbox, it prints what was refused.

Its text is sent into a sandbox and run there, so it is one file of the standard library.

    python -c TEXT          make a cell, with what a worker does to itself first
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
NEWCGROUP, FILES = 0x2000000, 0x400
CELL = NEWUSER | NEWPID | NEWNS | NEWIPC | NEWUTS | NEWNET
RDONLY, NOSUID, NODEV, NOEXEC, BIND, REC, PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000
CALLS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "capset": 126},
    "aarch64": {"clone": 220, "pivot_root": 41, "capset": 91},
}[platform.machine()]
CALLS.update(mount_setattr=442, clone3=435, open_tree=428, move_mount=429, fsopen=430)
results: dict[str, Any] = {}


def checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(name: str, *arguments: object) -> int:
    return checked(LIBC.syscall(ctypes.c_long(CALLS[name]), *arguments))


def attempt(name: str, action: Callable[[], object]) -> None:
    """Notes the name of the error that an action fails with, or None."""
    try:
        action()
    except OSError as error:
        results[name] = errno.errorcode.get(error.errno or 0, str(error))
    else:
        results[name] = None


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    checked(LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]))


def unshare(flags: int) -> None:
    checked(LIBC.unshare(ctypes.c_int(flags)))


def clone(flags: int) -> int:
    return call("clone", ctypes.c_ulong(flags | 17), None, None, None, None)


def forked(name: str, action: Callable[[], object], flags: int = 0) -> None:
    """Does something in another process, which reports through a pipe."""
    reading, writing = os.pipe()
    try:
        pid = clone(flags)
    except OSError as error:
        results[name] = errno.errorcode.get(error.errno or 0, str(error))
        return
    if pid == 0:
        results.clear()
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            results["raised"] = repr(error)
        os.write(writing, json.dumps(results).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        results[name] = json.loads(file.read() or b"null")
    os.waitpid(pid, 0)


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def map_ids(uid: int, gid: int) -> None:
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{uid} {uid} 1")
    write("/proc/self/gid_map", f"{gid} {gid} 1")


def become_worker(uid: int, gid: int) -> None:
    """What a worker does to itself once: a mount namespace of its own, in which everything is read-only."""
    attempt("unshare", partial(unshare, NEWUSER | NEWNS))
    if results["unshare"]:
        return
    attempt("worker maps", lambda: map_ids(uid, gid))
    attempt("worker private", lambda: mount("none", "/", None, REC | PRIVATE))
    attempt("worker tmpfs", lambda: mount("tmpfs", "/srv", "tmpfs", NOSUID | NODEV, "size=1m"))
    attempt("worker cells", lambda: mount("tmpfs", "/mnt", "tmpfs", NOSUID | NODEV, "size=1m,mode=755"))
    read_only = (ctypes.c_uint64 * 4)(RDONLY, 0, 0, 0)
    attempt("worker read-only", lambda: call("mount_setattr", -100, b"/", 0x8000, read_only, 32))
    # What is read-only here cannot be had writable in a cell, and a cell writes its maps.
    attempt("worker proc", lambda: call("mount_setattr", -100, b"/proc", 0, (ctypes.c_uint64 * 4)(0, RDONLY, 0, 0), 32))
    attempt("a file in a worker", lambda: write("/tmp/file", "text"))


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sH22x", b"lo", 0x41))


def pivot() -> None:
    os.chdir("/mnt")
    call("pivot_root", b".", b".")
    checked(LIBC.umount2(b".", 2))
    os.chdir("/")


def drop_capabilities() -> None:
    for capability in range(64):
        if LIBC.prctl(24, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break
    call("capset", struct.pack("=Ii", 0x20080522, 0), bytes(24))


def cell(uid: int, gid: int) -> None:
    attempt("maps", lambda: map_ids(uid, gid))
    attempt("private", lambda: mount("none", "/", None, REC | PRIVATE))
    attempt("tmpfs", lambda: mount("tmpfs", "/mnt", "tmpfs", NOSUID | NODEV, "size=4m,nr_inodes=64"))
    for name in ("usr", "etc", "dev", "proc", "tmp", "bin", "lib", "lib64"):
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), "/mnt/" + name)
        elif os.path.isdir("/" + name):
            os.mkdir("/mnt/" + name)
            if name not in ("proc", "tmp"):
                attempt(f"bind {name}", partial(mount, f"/{name}", f"/mnt/{name}", None, BIND | REC))
    attempt("proc", lambda: mount("proc", "/mnt/proc", "proc", NOSUID | NODEV | NOEXEC))
    options = "newinstance,ptmxmode=0666,mode=0600,max=16"
    attempt("devpts", lambda: mount("devpts", "/mnt/dev/pts", "devpts", NOSUID | NOEXEC, options))
    attempt("loopback", bring_up_loopback)
    attempt("pivot", pivot)
    attempt("no namespaces", lambda: write("/proc/sys/user/max_user_namespaces", "0"))
    attempt("drop", drop_capabilities)
    results["pid"], results["processes"] = os.getpid(), sorted(name for name in os.listdir("/proc") if name.isdigit())
    attempt("a file", lambda: write("/tmp/file", "text"))
    with socket.create_server(("127.0.0.1", 4000)):
        attempt("a connection", lambda: socket.create_connection(("127.0.0.1", 4000)).close())
    forked("program", program)


def program() -> None:
    """What code in a cell could try, and must not be able to."""
    for name, flags in (("user", NEWUSER), ("mount", NEWNS), ("network", NEWNET), ("pid", NEWPID), ("files", FILES)):
        attempt(f"unshare {name}", partial(unshare, flags))
    for name, flags in (
        ("user", NEWUSER),
        ("mount", NEWNS),
        ("user and mount", NEWUSER | NEWNS),
        ("cgroup", NEWCGROUP),
    ):
        forked("clone " + name, lambda: None, flags)
    attempt("mount", lambda: mount("tmpfs", "/tmp", "tmpfs"))
    attempt("remount", lambda: mount("none", "/usr", None, 0x20 | BIND))
    attempt("umount", lambda: checked(LIBC.umount2(b"/proc", 2)))
    attempt("pivot_root", lambda: call("pivot_root", b"/tmp", b"/tmp"))
    writable = (ctypes.c_uint64 * 4)(0, RDONLY, 0, 0)
    attempt("mount_setattr", lambda: call("mount_setattr", -100, b"/usr", 0x8000, writable, 32))
    attempt("max_user_namespaces", lambda: write("/proc/sys/user/max_user_namespaces", "9"))
    attempt("setns", lambda: checked(LIBC.setns(os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)))
    attempt("chroot", lambda: os.chroot("/tmp"))
    attempt("sethostname", lambda: socket.sethostname("other"))
    attempt("clone3", lambda: call("clone3", None, 0))
    attempt("open_tree", lambda: call("open_tree", -100, b"/", 1))
    attempt("fsopen", lambda: call("fsopen", b"tmpfs", 0))


if __name__ == "__main__":
    uid, gid = os.getuid(), os.getgid()
    if sys.argv[1:] == ["program"]:
        program()
    else:
        become_worker(uid, gid)
        forked("cell", lambda: cell(uid, gid), CELL)
    sys.stdout.write(json.dumps(results))
