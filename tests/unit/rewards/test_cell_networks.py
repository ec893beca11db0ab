"""The network namespace of a cell, as far as it needs no right to make one."""

import os
from collections.abc import Callable

import pytest

from sandrl.judge.guest import network
from sandrl.judge.guest.network import Network


@pytest.fixture(autouse=True)
def leaves_the_kernel_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "write_once", lambda path, value: None)


def libc(refused: str = "") -> Callable[..., int]:
    def call(name: str, *arguments: int | bytes) -> int:
        if name == refused:
            return -1
        return os.open("/dev/null", os.O_RDONLY) if name == "socket" else 0

    return call


def test_a_kernel_without_ipv6_has_networks_whose_other_counters_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "NETWORK_COUNTERS", ("sockstat", "dev", "snmp", "absent", "absent too"))
    made = Network(libc())
    assert [b"sockets:" in made.counters[0], b"lo:" in made.counters[1], b"Tcp:" in made.counters[2]] == [True] * 3
    assert len(made.counters) == 3
    made.close()


@pytest.mark.parametrize("refused", ["socket", "ioctl"])
def test_a_network_that_could_not_be_made_leaves_nothing_open(refused: str) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="is refused"):
        Network(libc(refused))
    assert os.listdir("/proc/self/fd") == before
