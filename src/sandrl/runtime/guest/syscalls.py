"""The Linux system calls Python does not wrap, called through libc.

Every function raises `OSError` with the call's name in the message, because "EPERM" alone does not show which of forty
steps the kernel refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import socket
import struct

CLONE_PIDFD = 0x00001000
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
NAMESPACE_FLAGS = (
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)
CELL_FLAGS = NAMESPACE_FLAGS & ~CLONE_NEWCGROUP
"""The namespaces that a cell of a worker sandbox has of its own."""

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

SECCOMP_SET_MODE_FILTER = 1

_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x41
_CAPABILITY_VERSION_3 = 0x20080522

_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "capset": 126, "seccomp": 317},
    "aarch64": {"clone": 220, "pivot_root": 41, "capset": 91, "seccomp": 277},
}

MACHINE = platform.machine()
_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def supported_machine() -> bool:
    return MACHINE in _NUMBERS


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


def libc_syscall(number: int, *arguments: object) -> int:
    """A system call by number, for the few used once; the result is unchecked."""
    return int(_syscall(ctypes.c_long(number), *arguments))


def unshare(flags: int) -> None:
    """Move the calling process into new namespaces (for `CLONE_NEWPID`: its next child)."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def clone_process(flags: int) -> tuple[int, int]:
    """Fork into new namespaces.

    Only for a process with one thread: Python's own fork hooks do not run.

    Returns:
        `(pid, pidfd)` in the parent, `(0, -1)` in the child.
    """
    pidfd = ctypes.c_int(-1)
    signal_child = 17
    number = _NUMBERS[MACHINE]["clone"]
    # The order of clone's last two arguments differs between processors, but both are zero here.
    pid = _check(
        _syscall(
            ctypes.c_long(number),
            ctypes.c_ulong(flags | CLONE_PIDFD | signal_child),
            ctypes.c_void_p(0),
            ctypes.byref(pidfd),
            ctypes.c_void_p(0),
            ctypes.c_void_p(0),
        ),
        "clone",
    )
    return (pid, pidfd.value) if pid else (0, -1)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system, or bind one part of the tree to another place; an error names both."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    _check(result, f"mount {kind or 'bind'} {source} on {target}")


def unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root_here(new_root: str) -> None:
    os.chdir(new_root)
    _check(_syscall(ctypes.c_long(_NUMBERS[MACHINE]["pivot_root"]), b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))), "sethostname")


def prctl(option: int, value: int = 0, *, third: int = 0) -> None:
    """Change an attribute of this process, with plain integer arguments."""
    _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_ulong(third), 0, 0), f"prctl({option})")


def drop_capabilities() -> None:
    """Give up every capability, in all five sets, for good."""
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # past the last capability this kernel knows
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_syscall(ctypes.c_long(_NUMBERS[MACHINE]["capset"]), header, bytes(24)), "capset")


def install_seccomp(program: bytes) -> None:
    """Install a classic BPF program as seccomp filter; needs no_new_privs."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    number = _NUMBERS[MACHINE]["seccomp"]
    result = _syscall(ctypes.c_long(number), ctypes.c_ulong(SECCOMP_SET_MODE_FILTER), ctypes.c_ulong(0), header)
    _check(result, "seccomp")


def write_maps(pid: int, users: list[list[int]], groups: list[list[int]]) -> None:
    """Give the user namespace of a process its ids: lines of first id inside, first id outside, count."""
    for name, text in (("setgroups", "deny"), ("uid_map", _lines(users)), ("gid_map", _lines(groups))):
        try:
            descriptor = os.open(f"/proc/{pid}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise OSError(error.errno, f"{name}: {error.strerror}") from error


def _lines(ranges: list[list[int]]) -> str:
    return "".join(f"{inside} {outside} {count}\n" for inside, outside, count in ranges)


def bring_up_loopback() -> None:
    """Set the `lo` interface of the current network namespace up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
        fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP_RUNNING))


def bound_socket_buffers(most_bytes: int) -> None:
    """Bound what TCP keeps for one socket, and have no closed connection wait, in the current network namespace."""
    for name, value in (
        ("tcp_rmem", f"4096 65536 {most_bytes}"),
        ("tcp_wmem", f"4096 65536 {most_bytes}"),
        ("tcp_max_tw_buckets", "0"),
    ):
        # What one kernel keeps per namespace, another does not.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            descriptor = os.open(f"/proc/sys/net/ipv4/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode())
            finally:
                os.close(descriptor)


def overwrite(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))
