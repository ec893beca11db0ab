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
