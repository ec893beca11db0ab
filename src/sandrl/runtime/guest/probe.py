"""Tries, as hostile code would, what can be reached from inside a sandbox, and prints the result as one JSON object.

Its text is sent into a sandbox and run there by the interpreter of the image, so it is one file that uses only
the standard library, for Python 3.8 and newer. It reports facts; the caller decides whether they are right.

    python -c TEXT reach PATHS PORT    files, processes, network and rights
    python -c TEXT memory BYTES        how a family of processes ends that takes more memory
    python -c TEXT processes           how many processes there can be
    python -c TEXT disk                how many bytes can be written
    python -c TEXT take WHAT AMOUNT    takes AMOUNT bytes of shared memory, pipes or epoll watches, and keeps them
    python -c TEXT little              takes the little of each that any program needs
    python -c TEXT locks PATHS         which files another process has locked, and whether its own can be
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_BLOCK = b"x" * (1 << 20)
# Together half as much again as the limit; at twice the limit, all of the sandbox's processes are killed.
_CHILDREN = 3
_NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts")
_CLONE_NEWUSER = 0x10000000
_PIECE_BYTES = 16 << 20
_MADV_DONTNEED = 4
_WATCHES_EACH = 200
_PIPE_BYTES = 1 << 16
_KEPT_SECONDS = 8


def _refusal(action: Callable[[], object]) -> str | None:
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return None


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def _connects(address: tuple[str, int]) -> Callable[[], None]:
    return lambda: socket.create_connection(address, timeout=1).close()


def _writes(path: str) -> Callable[[], None]:
    return lambda: open(path, "w").close()


def _reach(paths: list[str], port: int) -> dict[str, Any]:
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    searched = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    places = ("/usr", "/usr/bin", "/usr/local", "/etc", "/lib", "/dev", "/proc/sys/kernel", *searched)
    return {
        "namespaces": {name: os.readlink("/proc/self/ns/" + name) for name in _NAMESPACES},
        "visible": [path for path in paths if os.path.lexists(path)],
        "written": [place for place in places if _refusal(_writes(place + "/probe")) is None],
        "unwritable": [place for place in ("/tmp", "/workspace") if _refusal(_writes(place + "/probe"))],
        "pids": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
        "process_1": _refusal(lambda: open("/proc/1/environ", "rb").read(1)),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "outside": _refusal(_connects(("192.0.2.1", 80))),
        "host_port": _refusal(_connects(("127.0.0.1", port))),
        "uid": os.getuid(),
        "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "no_new_privs": status.get("NoNewPrivs"),
        "seccomp": status.get("Seccomp"),
        "calls": {
            "unshare": _refusal(lambda: _call("unshare", _CLONE_NEWUSER)),
            "mount": _refusal(lambda: _call("mount", b"none", b"/tmp", b"tmpfs", 0, None)),
            "ptrace": _refusal(lambda: _call("ptrace", 16, 1, 0, 0)),
            "setuid": _refusal(lambda: os.setuid(0)),
        },
        "environment": sorted(os.environ),
    }


def _memory(limit: int) -> dict[str, Any]:
    # Each child stays within the limit, all of them together do not.
    pid = os.fork()
    if pid == 0:
        try:
            kept = bytearray(2 * limit)
            time.sleep(3)
            os._exit(0 if kept else 1)
        finally:
            os._exit(1)
    alone = os.waitpid(pid, 0)[1]
    children = []
    for _ in range(_CHILDREN):
        pid = os.fork()
        if pid == 0:
            touched = b"x" * (limit // 2)
            time.sleep(3)
            os._exit(0 if touched else 1)
        children.append(pid)
    _, status = os.wait()
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return {"alone": alone == 0, "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL}


def _processes() -> dict[str, Any]:
    children: list[int] = []
    refusal = None
    while refusal is None and len(children) < 1000:
        try:
            pid = os.fork()
        except OSError as error:
            refusal = errno.errorcode.get(error.errno or 0, str(error))
            break
        if pid == 0:
            time.sleep(30)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    return {"started": len(children), "refusal": refusal}


def _disk() -> dict[str, Any]:
    written = 0
    try:
        for place in ("/tmp", "/workspace"):
            with open(place + "/fill", "wb", buffering=0) as file:
                for _ in range(512):
                    written += file.write(_BLOCK)
    except OSError as error:
        return {"written": written, "refusal": errno.errorcode.get(error.errno or 0, str(error))}
    return {"written": written, "refusal": None}


def _take(what: str, amount: int) -> dict[str, Any]:
    # Ends only if nobody stops it. Of shared memory, at most a few MiB are resident at a time.
    kept: list[Any] = []
    if what == "memory":
        for _ in range(0, amount, _PIECE_BYTES):
            piece = mmap.mmap(-1, _PIECE_BYTES)
            for offset in range(0, _PIECE_BYTES, mmap.PAGESIZE):
                piece[offset] = 1
            _call("madvise", ctypes.c_void_p(_address(piece)), ctypes.c_size_t(_PIECE_BYTES), _MADV_DONTNEED)
            kept.append(piece)
    elif what == "pipes":
        kept += [os.pipe() for _ in range(amount)]
    else:
        reading, _ = os.pipe()
        targets = [reading, *(os.dup(reading) for _ in range(_WATCHES_EACH - 1))]
        for _ in range(0, amount, _WATCHES_EACH):
            watcher = select.epoll()
            for target in targets:
                watcher.register(target)
            kept.append(watcher)
    time.sleep(_KEPT_SECONDS)
    return {"kept": amount}


def _address(piece: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(piece))


def _little() -> dict[str, Any]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with select.epoll() as watcher:
        refusal = _refusal(lambda: watcher.register(reading))
    return {"written": os.write(writing, b"x" * _PIPE_BYTES), "refusal": refusal}


def _locks(paths: list[str]) -> dict[str, Any]:
    _writes("/tmp/own")()
    opened = {path: os.open(path, os.O_RDONLY) for path in [*paths, "/tmp", "/tmp/own"]}
    lock = fcntl.LOCK_EX | fcntl.LOCK_NB
    return {
        "locked": [path for path in paths if _refusal(lambda: fcntl.flock(opened[path], lock))],  # noqa: B023
        "own": _refusal(lambda: fcntl.flock(opened["/tmp/own"], lock)),
        "watch": _refusal(lambda: fcntl.fcntl(opened["/tmp"], fcntl.F_NOTIFY, fcntl.DN_ACCESS)),
    }


if __name__ == "__main__":
    _what, *_words = sys.argv[1:]
    if _what == "reach":
        _facts = _reach([path for path in _words[0].split(":") if path], int(_words[1]))
    elif _what == "memory":
        _facts = _memory(int(_words[0]))
    elif _what == "locks":
        _facts = _locks(_words[0].split(":"))
    elif _what == "take":
        _facts = _take(_words[0], int(_words[1]))
    else:
        _facts = {"processes": _processes, "disk": _disk, "little": _little}[_what]()
    sys.stdout.write(json.dumps(_facts))
