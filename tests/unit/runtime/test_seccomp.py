"""The filter program, run by a small interpreter of classic BPF, decides as intended for every system call."""

from __future__ import annotations

import errno
import struct

import pytest

from sandrl.runtime.guest import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
LOAD, EQUAL, GREATER_EQUAL, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def decide(machine: str, number: int, *arguments: int, architecture: int | None = None, cells: bool = False) -> int:
    """What the kernel would do with one call."""
    words = list(arguments) + [0] * (6 - len(arguments))
    data = struct.pack("=IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *words)
    program = list(struct.iter_unpack("=HBBI", seccomp.build_filter(machine, cells)))
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


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("read", 0, ALLOW),
        ("write", 1, ALLOW),
        ("execve", 59, ALLOW),
        ("mount", 165, refused_with(errno.EPERM)),
        ("ptrace", 101, refused_with(errno.EPERM)),
        ("unshare", 272, refused_with(errno.EPERM)),
        ("setns", 308, refused_with(errno.EPERM)),
        ("keyctl", 250, refused_with(errno.EPERM)),
        ("bpf", 321, refused_with(errno.EPERM)),
        ("process_vm_readv", 310, refused_with(errno.EPERM)),
        ("shmget", 29, refused_with(errno.EPERM)),
        ("memfd_create", 319, refused_with(errno.ENOSYS)),
        ("io_uring_setup", 425, refused_with(errno.ENOSYS)),
        ("clone3", 435, refused_with(errno.ENOSYS)),
        ("io_setup", 206, refused_with(errno.ENOSYS)),
        ("io_submit", 209, refused_with(errno.ENOSYS)),
        ("io_pgetevents", 333, refused_with(errno.ENOSYS)),
    ],
)
def test_calls_are_decided_by_number(name: str, number: int, expected: int) -> None:
    assert decide("x86_64", number) == expected, name


def test_clone_is_refused_only_with_new_namespaces() -> None:
    assert decide("x86_64", 56, 17) == ALLOW
    assert decide("x86_64", 56, 0x003D0F00) == ALLOW  # a thread
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert decide("x86_64", 56, flag | 17) == refused_with(errno.EPERM)


@pytest.mark.parametrize(
    ("family", "protocol", "allowed"),
    [
        (1, 0, True),
        (2, 6, True),
        (10, 17, True),
        (16, 0, True),
        (16, 9, False),
        (17, 0, False),
        (38, 0, False),
        (40, 0, False),
    ],
)
def test_socket_families_are_chosen(family: int, protocol: int, allowed: bool) -> None:
    expected = ALLOW if allowed else refused_with(errno.EAFNOSUPPORT)
    assert decide("x86_64", 41, family, 1, protocol) == expected


def test_typing_into_another_terminal_is_refused() -> None:
    assert decide("x86_64", 16, 0, 0x5412) == refused_with(errno.EPERM)
    assert decide("x86_64", 16, 0, 0x541C) == refused_with(errno.EPERM)
    assert decide("x86_64", 16, 0, 0x5401) == ALLOW


def test_calls_of_another_architecture_kill_and_of_x32_do_not_exist() -> None:
    assert decide("x86_64", 1, architecture=0x40000003) == KILL
    assert decide("x86_64", 0x40000000 | 1) == refused_with(errno.ENOSYS)


def test_the_other_processor_has_the_same_rules_by_its_own_numbers() -> None:
    assert decide("aarch64", 63) == ALLOW  # read
    assert decide("aarch64", 117) == refused_with(errno.EPERM)  # ptrace
    assert decide("aarch64", 220, 0x10000000) == refused_with(errno.EPERM)  # clone
    assert decide("aarch64", 198, 40) == refused_with(errno.EAFNOSUPPORT)  # socket


CELL_FLAGS = (0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
NUMBERS = {
    "x86_64": {
        "clone": 56,
        "unshare": 272,
        "mount": 165,
        "umount2": 166,
        "pivot_root": 155,
        "mount_setattr": 442,
        "chroot": 161,
    },
    "aarch64": {
        "clone": 220,
        "unshare": 97,
        "mount": 40,
        "umount2": 39,
        "pivot_root": 41,
        "mount_setattr": 442,
        "chroot": 51,
    },
}


@pytest.mark.parametrize("machine", sorted(NUMBERS))
def test_a_worker_may_make_the_namespaces_and_mounts_of_cells(machine: str) -> None:
    numbers = NUMBERS[machine]
    for name in ("mount", "umount2", "pivot_root", "mount_setattr", "chroot"):
        assert decide(machine, numbers[name]) == refused_with(errno.EPERM)
        assert decide(machine, numbers[name], cells=True) == ALLOW
    assert decide(machine, numbers["clone"], sum(CELL_FLAGS) | 17, cells=True) == ALLOW
    for flag in CELL_FLAGS:
        assert decide(machine, numbers["unshare"], flag) == refused_with(errno.EPERM)
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
