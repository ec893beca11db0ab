"""What the self-check makes of what was reached from inside: every leak is named, and nothing else."""

from __future__ import annotations

import os
from typing import Any

import pytest

from sandrl.runtime import selfcheck

TIGHT: dict[str, Any] = {
    "namespaces": {"net": "net:[1]", "pid": "pid:[1]"},
    "visible": [],
    "written": [],
    "unwritable": [],
    "pids": [1, 2],
    "process_1": "EACCES",
    "interfaces": ["lo"],
    "outside": "ENETUNREACH",
    "host_port": "ECONNREFUSED",
    "uid": 1000,
    "capabilities": ["0000000000000000"] * 5,
    "no_new_privs": "1",
    "seccomp": "2",
    "calls": {"mount": "EPERM"},
    "environment": ["PATH", "LC_CTYPE"],
}


def broken(**leaks: Any) -> dict[str, str]:
    return {each.name: each.detail for each in selfcheck._judge_reach(TIGHT | leaks) if not each.holds}


def test_a_tight_sandbox_has_every_property() -> None:
    assert broken() == {}


@pytest.mark.parametrize(
    ("leak", "name", "detail"),
    [
        ({"namespaces": {"net": os.readlink("/proc/self/ns/net")}}, "own namespaces", "net shared with the host"),
        ({"visible": ["/etc/shadow"]}, "no host files", "/etc/shadow visible"),
        ({"written": ["/usr"]}, "read-only system", "/usr writable"),
        ({"unwritable": ["/tmp"]}, "own /tmp and /workspace", "/tmp not writable"),
        ({"pids": [1, 2, 3, 4]}, "no other processes", "4 processes are visible"),
        ({"pids": [7]}, "no other processes", "1 processes are visible"),
        ({"process_1": None}, "no other processes", "process 1 can be read"),
        ({"interfaces": ["lo", "eth0"]}, "no network", "eth0 reachable"),
        ({"outside": None}, "no network", "outside reachable"),
        ({"host_port": None}, "no network", "the host's ports reachable"),
        ({"uid": 0}, "no privileges", "user 0 there"),
        ({"capabilities": ["0000000000000000", "00000000a80425fb"]}, "no privileges", "capabilities there"),
        ({"no_new_privs": "0"}, "no privileges", "new privileges there"),
        ({"calls": {"mount": None}}, "refused system calls", "mount is allowed"),
        ({"seccomp": "0"}, "refused system calls", "there is no seccomp filter"),
        ({"environment": ["PATH", "WANDB_API_KEY"]}, "no host environment", "WANDB_API_KEY inside"),
    ],
)
def test_a_leak_is_named(leak: dict[str, Any], name: str, detail: str) -> None:
    assert broken(**leak) == {name: detail}
