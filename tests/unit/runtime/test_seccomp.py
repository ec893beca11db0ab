"""The filter program, run by a small interpreter of classic BPF, decides as intended for every system call."""

from __future__ import annotations

import errno
import struct

import pytest

from sandrl.runtime.guest import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD, EQUAL, GREATER_EQUAL, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def decide(
    machine: str,
    number: int,
    *arguments: int,
    architecture: int | None = None,
    cells: bool = False,
    pretends: bool = False,
) -> int:
    """What the kernel would do with one call."""
    words = list(arguments) + [0] * (6 - len(arguments))
    data = struct.pack("=IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *words)
    program = list(struct.iter_unpack("=HBBI", seccomp.build_filter(machine, cells, pretends=pretends)))
    position = accumulator = 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == LOAD:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif code == RETURN:
            return int(value)
        else:
            holds = {
                EQUAL: accumulator == value,
                GREATER_EQUAL: accumulator >= value,
                BITS: bool(accumulator & value),
            }[code]
            position += if_true if holds else if_false


def refused_with(number: int) -> int:
    return 0x00050000 | number


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_a_program_is_well_formed(machine: str, cells: bool) -> None:
    program = list(struct.iter_unpack("=HBBI", seccomp.build_filter(machine, cells)))
    assert len(program) < 4096
    for position, (code, if_true, if_false, _) in enumerate(program):
        if code in (EQUAL, GREATER_EQUAL, BITS):
            assert position + 1 + max(if_true, if_false) < len(program)
    assert program[-1][0] == RETURN


EPERM, ENOSYS = refused_with(errno.EPERM), refused_with(errno.ENOSYS)
NO_FAMILY, NO_MEMORY = refused_with(errno.EAFNOSUPPORT), refused_with(errno.ENOMEM)
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
LOCKS = (5, 6, 7, 36, 37, 38)
CALLS: dict[str, dict[tuple[int, ...], int]] = {
    # A number, then arguments.
    "x86_64": {
        # read, write, execve
        **{(number,): ALLOW for number in (0, 1, 59)},
        # mount, ptrace, unshare, setns, keyctl, bpf, process_vm_readv, shmget
        **{(number,): EPERM for number in (165, 101, 272, 308, 250, 321, 310, 29)},
        # memfd_create, io_uring_setup, clone3, io_setup, io_submit, io_pgetevents
        **{(number,): ENOSYS for number in (319, 425, 435, 206, 209, 333)},
        # inotify and fanotify watch the host's files.
        **{(number,): ENOSYS for number in (253, 294, 300)},
        # clone: a process, and a thread, which shares its descriptors; no new namespaces.
        (56, 17): ALLOW,
        (56, 0x003D0F00): ALLOW,
        (56, 0x10000 | 0x400): ALLOW,
        (56, 0x10000): EPERM,
        **{(56, flag | 17): EPERM for flag in NAMESPACES},
        # socket: Unix, IPv4, IPv6 and route netlink.
        **{(41, family, 1, protocol): ALLOW for family, protocol in ((1, 0), (2, 6), (10, 17), (16, 0))},
        **{(41, family, 1, protocol): NO_FAMILY for family, protocol in ((16, 9), (17, 0), (38, 0), (40, 0))},
        # ioctl: nothing is typed into another terminal.
        (16, 0, 0x5412): EPERM,
        (16, 0, 0x541C): EPERM,
        (16, 0, 0x5401): ALLOW,
        # prlimit64 and sched_set*: of the process itself only.
        **{(number, 0): ALLOW for number in (302, 142, 144, 203, 314)},
        **{(number, 1): EPERM for number in (302, 142, 144, 203, 314)},
        # setpriority: likewise.
        (141, 0, 0, 5): ALLOW,
        (141, 0, 1, 5): EPERM,
        (141, 1, 0, 5): EPERM,
        # fcntl: pipes keep their size, directories are not watched, files not leased; a program locks its own.
        **{(72, 3, command, 1): EPERM for command in (1031, 1024, 1026)},
        **{(72, 3, command): ALLOW for command in (4, *LOCKS)},
        # close_range: a thread does not get a table of descriptors of its own by closing some.
        (436, 3, 100, 4): ALLOW,
        (436, 3, 100, 2): EPERM,
        # mmap: the host's huge pages are not given away.
        (9, 0, 1 << 21, 3, 0x22): ALLOW,
        (9, 0, 1 << 21, 3, 0x40022): NO_MEMORY,
        # The numbers of x32 do not exist.
        (0x40000000 | 1,): ENOSYS,
    },
    "aarch64": {
        # read, ptrace, clone, socket, asynchronous requests, fcntl, mmap
        (63,): ALLOW,
        (117,): EPERM,
        (220, 0x10000000): EPERM,
        (220, 0x10000 | 0x400): ALLOW,
        (220, 0x10000): EPERM,
        (220, 17): ALLOW,
        (198, 40): NO_FAMILY,
        **{(number,): ENOSYS for number in range(5)},
        **{(25, 3, command, 1): EPERM for command in (1024, 1026)},
        **{(25, 3, command): ALLOW for command in LOCKS},
        (222, 0, 1 << 21, 3, 0x22): ALLOW,
        (222, 0, 1 << 21, 3, 0x40022): NO_MEMORY,
    },
}


@pytest.mark.parametrize("machine", sorted(CALLS))
def test_calls_are_decided_by_number_and_arguments(machine: str) -> None:
    assert {call: decide(machine, *call) for call in CALLS[machine]} == CALLS[machine]


def test_calls_of_another_architecture_kill() -> None:
    assert decide("x86_64", 1, architecture=0x40000003) == KILL


CELL_FLAGS = (0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
NAMES = ("clone", "unshare", "mount", "umount2", "pivot_root", "mount_setattr", "chroot", "setns")
NUMBERS = {
    "x86_64": dict(zip(NAMES, (56, 272, 165, 166, 155, 442, 161, 308), strict=True)),
    "aarch64": dict(zip(NAMES, (220, 97, 40, 39, 41, 442, 51, 268), strict=True)),
}


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_a_worker_may_make_the_namespaces_and_mounts_of_cells(machine: str) -> None:
    numbers = NUMBERS[machine]
    for name in ("mount", "umount2", "pivot_root", "mount_setattr", "chroot", "setns"):
        assert decide(machine, numbers[name]) == EPERM
        assert decide(machine, numbers[name], cells=True) == ALLOW
    assert decide(machine, numbers["clone"], sum(CELL_FLAGS) | 17, cells=True) == ALLOW
    for flag in CELL_FLAGS:
        assert decide(machine, numbers["unshare"], flag) == EPERM
        assert decide(machine, numbers["unshare"], flag, cells=True) == ALLOW


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_a_worker_gets_no_other_namespace_and_no_other_table_of_descriptors(machine: str) -> None:
    clone, unshare = NUMBERS[machine]["clone"], NUMBERS[machine]["unshare"]
    new_cgroup, new_time, files, thread = 0x2000000, 0x80, 0x400, 0x10000
    assert decide(machine, clone, new_cgroup | 0x10000000 | 17, cells=True) == refused_with(errno.EPERM)
    assert decide(machine, clone, thread, cells=True) == refused_with(errno.EPERM)
    assert decide(machine, clone, thread | files, cells=True) == ALLOW
    for flag in (new_cgroup, new_time, files, files | CELL_FLAGS[0]):
        assert decide(machine, unshare, flag, cells=True) == refused_with(errno.EPERM)


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_a_worker_is_refused_all_else_that_a_sandbox_is(machine: str) -> None:
    differing = {number for number in range(470) if decide(machine, number) != decide(machine, number, cells=True)}
    assert differing == {number for name, number in NUMBERS[machine].items() if name != "clone"}
    changed = {call[0] for call in CALLS[machine] if decide(machine, *call) != decide(machine, *call, cells=True)}
    assert changed <= set(NUMBERS[machine].values())


@pytest.mark.parametrize(("machine", "numbers"), [("x86_64", (92, 93, 94, 116, 260)), ("aarch64", (54, 55, 159))])
def test_changes_of_owners_succeed_without_an_effect_where_there_is_one_user_alone(
    machine: str, numbers: tuple[int, ...]
) -> None:
    assert {decide(machine, number) for number in numbers} == {ALLOW}
    assert {decide(machine, number, pretends=True) for number in numbers} == {refused_with(0)}
