"""The system-call filter of a sandbox, as a classic BPF program.

It is a deny list over a process that already has no capability and its own namespaces. It refuses kernel surface that
no test of a code model needs (new namespaces, mounts, keyrings, BPF, io_uring, ptrace), memory that no limit would
count (memfd, System V IPC), objects that are counted for the whole machine (asynchronous I/O requests), and a way to
hide descriptors from the watchdog (a thread with a descriptor table of its own). Refused calls fail with an error and
do not kill the process, so that libraries that probe for a feature fall back.

A worker sandbox makes cells, so its filter allows the calls that this takes: namespaces and mounts. A filter cannot be
stricter for some of the programs below it than for others, so programs in cells inherit this one. They can use none of
these calls: they have no capability, and they can gain one only in a user namespace of their own, of which a cell
allows none (0 in `/proc/sys/user/max_user_namespaces` of the cell's own user namespace).
"""

from __future__ import annotations

import errno
import struct

from sandrl.runtime.guest.syscalls import CELL_FLAGS, NAMESPACE_FLAGS

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000
_AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_SAME_EVERYWHERE = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "clone3": 435, "pidfd_getfd": 438,
    "close_range": 436, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447,
    "cachestat": 451, "open_tree_attr": 467,
}  # fmt: skip
_NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": {
        "chown": 92, "fchown": 93, "lchown": 94, "setgroups": 116, "fchownat": 260,
        "shmget": 29, "shmat": 30, "socket": 41, "clone": 56, "semget": 64, "msgget": 68, "ioctl": 16, "fcntl": 72,
        "ptrace": 101, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "sched_setaffinity": 203,
        "ioprio_set": 251, "inotify_init": 253, "vmsplice": 278, "inotify_init1": 294, "fanotify_init": 300,
        "prlimit64": 302, "sched_setattr": 314, "mmap": 9, "fallocate": 285,
        "io_setup": 206, "io_destroy": 207, "io_getevents": 208, "io_submit": 209, "io_cancel": 210,
        "io_pgetevents": 333,
        "syslog": 103, "uselib": 134, "personality": 135, "ustat": 136, "sysfs": 139, "vhangup": 153,
        "modify_ldt": 154, "pivot_root": 155, "_sysctl": 156, "adjtimex": 159, "chroot": 161, "acct": 163,
        "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
        "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "create_module": 174,
        "init_module": 175, "delete_module": 176, "get_kernel_syms": 177, "query_module": 178, "quotactl": 179,
        "nfsservctl": 180, "lookup_dcookie": 212, "clock_settime": 227, "mbind": 237, "set_mempolicy": 238,
        "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "migrate_pages": 256, "unshare": 272,
        "move_pages": 279, "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304,
        "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
        "finit_module": 313, "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
    },
    "aarch64": {
        "fchownat": 54, "fchown": 55, "setgroups": 159,
        "io_setup": 0, "io_destroy": 1, "io_submit": 2, "io_cancel": 3, "io_getevents": 4, "io_pgetevents": 292,
        "mmap": 222, "fallocate": 47,
        "lookup_dcookie": 18, "fcntl": 25, "inotify_init1": 26, "ioctl": 29, "ioprio_set": 30, "vmsplice": 75,
        "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122, "setpriority": 140,
        "prlimit64": 261, "fanotify_init": 262, "sched_setattr": 274, "umount2": 39, "mount": 40,
        "pivot_root": 41, "nfsservctl": 42,
        "chroot": 51, "vhangup": 58, "quotactl": 60, "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104,
        "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142,
        "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "adjtimex": 171, "msgget": 186,
        "semget": 190, "shmget": 194, "shmat": 196, "socket": 198, "add_key": 217, "request_key": 218,
        "keyctl": 219, "clone": 220, "swapon": 224, "swapoff": 225, "mbind": 235, "set_mempolicy": 237,
        "migrate_pages": 238, "move_pages": 239, "perf_event_open": 241, "name_to_handle_at": 264,
        "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268, "process_vm_readv": 270,
        "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "memfd_create": 279, "bpf": 280,
        "userfaultfd": 282, "kexec_file_load": 294,
    },
}  # fmt: skip

# Filtered by argument below, so not refused outright.
_ON_ITSELF_ONLY = ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
_BY_ARGUMENT = {
    *("clone", "clone3", "socket", "ioctl", "fcntl", "personality", "setpriority", "close_range", "mmap", "fallocate"),
    *_ON_ITSELF_ONLY,
}
_OF_OWNERS = {"chown", "fchown", "lchown", "fchownat", "setgroups"}
_FOR_CELLS = {"unshare", "setns", "mount", "umount2", "pivot_root", "mount_setattr", "chroot"}
# A missing system call is what a library that probes for these expects.
_MISSING = {
    *("inotify_init", "inotify_init1", "fanotify_init", "clone3", "memfd_create", "memfd_secret", "cachestat"),
    *("io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "io_destroy", "io_submit", "io_cancel"),
    *("io_getevents", "io_pgetevents"),
}

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_RESERVING = 0x40305828, 0x4030582A, 0x40305839
"""`FS_IOC_RESVSP`, `FS_IOC_RESVSP64` and `FS_IOC_ZERO_RANGE`: `fallocate` by another name."""
_PERSONALITY_QUERY = 0xFFFFFFFF
_F_SETLEASE, _F_NOTIFY, _F_SETPIPE_SZ = 1024, 1026, 1031
_CLONE_FILES, _CLONE_THREAD = 0x400, 0x10000
_CLOSE_RANGE_UNSHARE = 2
_MAP_HUGETLB = 0x40000
_ALL_BITS = 0xFFFFFFFF


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _instruction(_RETURN, _ERRNO | number)


def _argument(index: int) -> bytes:
    return _instruction(_LOAD, _FIRST_ARGUMENT + 8 * index)


def _when(number: int, block: bytes) -> bytes:
    return _instruction(_JUMP_EQUAL, number, 0, len(block) // 8) + block


def build_filter(
    machine: str, cells: bool = False, image: bool = False, stored: bool = False, pretends: bool = False
) -> bytes:
    """The filter program for one processor.

    Args:
        cells: Whether it is for a worker, which may make namespaces and mount.
        image: Whether it is for programs of an image, whose user 0 may have another root in its own files.
        stored: Whether files are on disk, of which no call may take any amount at once.
        pretends: Whether changes of owners and groups succeed without an effect, where there is one user alone.
    """
    numbers = _NUMBERS[machine] | _SAME_EVERYWHERE
    allow = _instruction(_RETURN, _ALLOW)
    reload_number = _instruction(_LOAD, _NUMBER_OFFSET)
    program = _instruction(_LOAD, _ARCHITECTURE_OFFSET)
    program += _instruction(_JUMP_EQUAL, _AUDIT_ARCHITECTURES[machine], 1, 0) + _instruction(_RETURN, _KILL_PROCESS)
    program += reload_number
    if machine == "x86_64":
        program += _instruction(_JUMP_GREATER_EQUAL, _X32_BIT, 0, 1) + _refuse(errno.ENOSYS)

    program += _when(
        numbers["clone"],
        _argument(0)
        + _instruction(_JUMP_BITS, NAMESPACE_FLAGS & ~CELL_FLAGS if cells else NAMESPACE_FLAGS, 0, 1)
        + _refuse(errno.EPERM)
        + _instruction(_JUMP_BITS, _CLONE_THREAD, 0, 2)
        + _instruction(_JUMP_BITS, _CLONE_FILES, 1, 0)
        + _refuse(errno.EPERM)
        + allow,
    )
    if cells:
        # Nothing else: a descriptor table of its own, above all.
        program += _when(
            numbers["unshare"],
            _argument(0) + _instruction(_JUMP_BITS, ~CELL_FLAGS & _ALL_BITS, 0, 1) + _refuse(errno.EPERM) + allow,
        )
    program += _when(
        numbers["close_range"],
        _argument(2) + _instruction(_JUMP_BITS, _CLOSE_RANGE_UNSHARE, 0, 1) + _refuse(errno.EPERM) + allow,
    )
    # The host's pool of huge pages belongs to whoever made it.
    program += _when(
        numbers["mmap"], _argument(3) + _instruction(_JUMP_BITS, _MAP_HUGETLB, 0, 1) + _refuse(errno.ENOMEM) + allow
    )
    families = b"".join(_instruction(_JUMP_EQUAL, family, 0, 1) + allow for family in (_AF_UNIX, _AF_INET, _AF_INET6))
    # Route netlink (protocol 0) answers which interfaces exist; the other protocols are kernel surface.
    netlink = _instruction(_JUMP_EQUAL, _AF_NETLINK, 0, 3) + _argument(2) + _instruction(_JUMP_EQUAL, 0, 0, 1) + allow
    program += _when(numbers["socket"], _argument(0) + families + netlink + _refuse(errno.EAFNOSUPPORT))
    # Both calls type into the terminal of another process.
    program += _when(
        numbers["ioctl"],
        _argument(1)
        + b"".join(_instruction(_JUMP_EQUAL, each, 0, 1) + _refuse(errno.EPERM) for each in (_TIOCSTI, _TIOCLINUX))
        + b"".join(_instruction(_JUMP_EQUAL, each, 0, 1) + _refuse(errno.EOPNOTSUPP) for each in _RESERVING if stored)
        + allow,
    )
    if stored:
        # Libraries then write zeros.
        program += _when(numbers["fallocate"], _refuse(errno.EOPNOTSUPP))
    program += _when(
        numbers["personality"],
        _argument(0)
        + _instruction(_JUMP_EQUAL, 0, 1, 0)
        + _instruction(_JUMP_EQUAL, _PERSONALITY_QUERY, 0, 1)
        + allow
        + _refuse(errno.EPERM),
    )
    # Leases and watches tell of others who open files, and larger pipes use up a quota of the host's user.
    program += _when(
        numbers["fcntl"],
        _argument(1)
        + _instruction(_JUMP_EQUAL, _F_SETLEASE, 2, 0)
        + _instruction(_JUMP_EQUAL, _F_NOTIFY, 1, 0)
        + _instruction(_JUMP_EQUAL, _F_SETPIPE_SZ, 0, 1)
        + _refuse(errno.EPERM)
        + allow,
    )
    # Same user, so nothing else keeps a program from starving or crippling the agent.
    own_process = _instruction(_JUMP_EQUAL, 0, 0, 1) + allow + _refuse(errno.EPERM)
    for name in _ON_ITSELF_ONLY:
        program += _when(numbers[name], _argument(0) + own_process)
    program += _when(
        numbers["setpriority"],
        _argument(0) + _instruction(_JUMP_EQUAL, 0, 1, 0) + _refuse(errno.EPERM) + _argument(1) + own_process,
    )
    for name, number in sorted(numbers.items(), key=lambda item: item[1]):
        if name in _OF_OWNERS:
            program += _when(number, _refuse(0)) if pretends else b""
        elif name in _MISSING:
            program += _when(number, _refuse(errno.ENOSYS))
        elif name not in _BY_ARGUMENT and not (cells and name in _FOR_CELLS) and not (image and name == "chroot"):
            program += _when(number, _refuse(errno.EPERM))
    return program + allow
