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

_CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "SYS_CHROOT": 18,
    "SYS_PTRACE": 19,
    "SETFCAP": 31,
}
_CAPABILITY_WORD_BITS = 32
AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_OPEN_TREE, _MOVE_MOUNT, _OPENAT2, _MOUNT_SETATTR = 428, 429, 437, 442
_RESOLVE_NO_MAGICLINKS = 2
_OPEN_TREE_CLONE, _MOVE_MOUNT_EMPTY_PATH = 1, 4
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, _ATTR_IDMAP = 0x1, 0x2, 0x4, 0x100000

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


def set_mount_attributes(
    attributes: int, *, place: str = "", mount: int = AT_FDCWD, flags: int = 0, ids: int = -1
) -> None:
    """mount_setattr(2) of a path, or of a mount by its descriptor; `ids` is a user namespace that maps its owners."""
    if ids >= 0:
        attributes |= _ATTR_IDMAP
    values = struct.pack("=4Q", attributes, 0, MS_PRIVATE if ids >= 0 else 0, max(ids, 0))
    flags |= 0 if place else _AT_EMPTY_PATH
    result = _syscall(ctypes.c_long(_MOUNT_SETATTR), mount, place.encode(), flags, values, ctypes.c_size_t(len(values)))
    _check(result, f"mount_setattr {place}".rstrip())


def clone_mount(path: str) -> int:
    """A descriptor of a copy of what is mounted at a path, from there on, that is attached nowhere."""
    result = _syscall(
        ctypes.c_long(_OPEN_TREE), AT_FDCWD, path.encode(), ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC)
    )
    return _check(int(result), f"open_tree {path}")


def attach_mount(mount: int, target: str) -> None:
    """Mount what `clone_mount` has copied."""
    number = ctypes.c_long(_MOVE_MOUNT)
    result = _syscall(number, mount, b"", AT_FDCWD, target.encode(), ctypes.c_uint(_MOVE_MOUNT_EMPTY_PATH))
    _check(result, f"move_mount on {target}")


def unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")


def pivot_root_here(new_root: str) -> None:
    os.chdir(new_root)
    _check(_syscall(ctypes.c_long(_NUMBERS[MACHINE]["pivot_root"]), b".", b"."), "pivot_root")
    unmount(".")
    os.chdir("/")


def change_directory(path: str) -> None:
    """chdir(2), but not through a link of `/proc` that means what some process has open."""
    how = struct.pack("=3Q", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, _RESOLVE_NO_MAGICLINKS)
    result = _syscall(ctypes.c_long(_OPENAT2), AT_FDCWD, os.fsencode(path), how, ctypes.c_size_t(len(how)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    try:
        os.fchdir(result)
    finally:
        os.close(result)


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))), "sethostname")


def prctl(option: int, value: int = 0, *, third: int = 0) -> None:
    """Change an attribute of this process, with plain integer arguments."""
    _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), ctypes.c_ulong(third), 0, 0), f"prctl({option})")


def bound_capabilities(most: tuple[str, ...] = ()) -> None:
    """Give up, for good, what no program started from now on may have; it may have the `most` that are named."""
    kept = {_CAPABILITIES[name] for name in most}
    for capability in range(64):
        if capability not in kept and _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # past the last capability this kernel knows
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def set_capabilities(names: tuple[str, ...] = ()) -> None:
    """Have these capabilities of those that this process has, and none to inherit."""
    bits = sum(1 << _CAPABILITIES[name] for name in names)
    low, high = bits & (1 << _CAPABILITY_WORD_BITS) - 1, bits >> _CAPABILITY_WORD_BITS
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    data = struct.pack("=6I", low, low, 0, high, high, 0)
    _check(_syscall(ctypes.c_long(_NUMBERS[MACHINE]["capset"]), header, data), "capset")


def install_seccomp(program: bytes) -> None:
    """Install a classic BPF program as seccomp filter; needs no_new_privs."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    number = _NUMBERS[MACHINE]["seccomp"]
    result = _syscall(ctypes.c_long(number), ctypes.c_ulong(SECCOMP_SET_MODE_FILTER), ctypes.c_ulong(0), header)
    _check(result, "seccomp")


def write_maps(pid: int, users: list[list[int]], groups: list[list[int]], *, setgroups: bool = False) -> None:
    """Give the user namespace of a process its ids: lines of first id inside, first id outside, count.

    Its programs may choose the groups that they are in only where `setgroups` is true.
    """
    texts = {"uid_map": _lines(users), "gid_map": _lines(groups)}
    for name, text in (texts if setgroups else {"setgroups": "deny", **texts}).items():
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
    buffers = f"4096 65536 {most_bytes}"
    configure_network({"ipv4/tcp_rmem": buffers, "ipv4/tcp_wmem": buffers, "ipv4/tcp_max_tw_buckets": "0"})


def configure_network(settings: dict[str, str]) -> None:
    """Change settings of the current network namespace, by their paths, as far as this kernel has them for one."""
    for name, value in settings.items():
        # What one kernel keeps per namespace, another does not.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            descriptor = os.open(f"/proc/sys/net/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode())
            finally:
                os.close(descriptor)


def overwrite(address: int, data: bytes) -> None:
    ctypes.memmove(address, data, len(data))
