"""Calls that are refused only when they reach beyond the caller, or beyond what a sandbox may use."""

from __future__ import annotations

import errno

import pytest
from tests.unit.runtime.test_seccomp import ALLOW, decide, refused_with


@pytest.mark.parametrize("number", [302, 142, 144, 203, 314])
def test_a_process_sets_its_own_limits_and_scheduling_only(number: int) -> None:
    assert decide("x86_64", number, 0) == ALLOW
    assert decide("x86_64", number, 1) == refused_with(errno.EPERM)


def test_a_process_lowers_its_own_priority_only() -> None:
    assert decide("x86_64", 141, 0, 0, 5) == ALLOW
    assert decide("x86_64", 141, 0, 1, 5) == refused_with(errno.EPERM)
    assert decide("x86_64", 141, 1, 0, 5) == refused_with(errno.EPERM)


def test_pipes_keep_their_size() -> None:
    assert decide("x86_64", 72, 3, 1031, 1 << 20) == refused_with(errno.EPERM)
    assert decide("x86_64", 72, 3, 4, 0x800) == ALLOW


@pytest.mark.parametrize("number", [253, 294, 300])
def test_watching_the_hosts_files_does_not_exist(number: int) -> None:
    assert decide("x86_64", number) == refused_with(errno.ENOSYS)


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 56), ("aarch64", 220)])
def test_a_thread_shares_its_descriptors(machine: str, number: int) -> None:
    files, thread = 0x400, 0x10000
    assert decide(machine, number, thread | files) == ALLOW
    assert decide(machine, number, thread) == refused_with(errno.EPERM)
    assert decide(machine, number, 17) == ALLOW  # a process has a table of its own, which shows in /proc


def test_a_thread_does_not_get_its_own_descriptors_by_closing_some() -> None:
    assert decide("x86_64", 436, 3, 100, 4) == ALLOW
    assert decide("x86_64", 436, 3, 100, 2) == refused_with(errno.EPERM)


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 9), ("aarch64", 222)])
def test_huge_pages_of_the_host_are_not_given_away(machine: str, number: int) -> None:
    assert decide(machine, number, 0, 1 << 21, 3, 0x22) == ALLOW
    assert decide(machine, number, 0, 1 << 21, 3, 0x40022) == refused_with(errno.ENOMEM)


@pytest.mark.parametrize("number", range(5))
def test_asynchronous_requests_do_not_exist_on_the_other_processor(number: int) -> None:
    assert decide("aarch64", number) == refused_with(errno.ENOSYS)


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 72), ("aarch64", 25)])
@pytest.mark.parametrize("cells", [False, True])
def test_a_program_watches_no_directory_and_leases_no_file_but_locks_its_own(
    machine: str, number: int, cells: bool
) -> None:
    set_lease, notify = 1024, 1026
    for command in (set_lease, notify):
        assert decide(machine, number, 3, command, 1, cells=cells) == refused_with(errno.EPERM)
    locks = (5, 6, 7, 36, 37, 38)
    for command in locks:
        assert decide(machine, number, 3, command, cells=cells) == ALLOW
