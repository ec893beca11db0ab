"""Control groups of sandboxes: every process is in one, and none is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cwsandbox import Session

from sandrl.runtime import daemon
from sandrl.runtime.host import control_groups
from sandrl.runtime.host.control_groups import ControlGroups, GroupLimits, GroupsUnavailableError
from sandrl.runtime.state import DaemonEndpoint
from sandrl.runtime.usage import family
from tests.integration.runtime.conftest import wait_until

MIB = 1 << 20
LIMITS = GroupLimits(64 * MIB, 32)


@pytest.fixture
def groups() -> Iterator[ControlGroups]:
    try:
        groups = ControlGroups.find()
    except GroupsUnavailableError as error:
        pytest.skip(f"no control groups can be made here: {error}")
    yield groups
    groups.close()


def bases(groups: ControlGroups) -> set[Path]:
    """The directories that every group is in; other tests of this process may have made groups, too."""
    return {groups._bases[name] for name in ("memory", "pids")}


def directories(owner: int) -> list[Path]:
    """The groups that a process has made, in all hierarchies."""
    found = set()
    for _, parents in control_groups._candidates():
        for parent in set(parents.values()):
            found |= set(parent.glob(f"sandrl-*-{owner}-*"))
    return sorted(found)


def test_a_group_holds_what_its_processes_start(groups: ControlGroups) -> None:
    group = groups.take(LIMITS)
    shell = subprocess.Popen(["sh", "-c", "read line; sleep 60 & wait"], stdin=subprocess.PIPE)
    assert shell.stdin is not None
    group.add(family(shell.pid))
    shell.stdin.write(b"go\n")
    shell.stdin.close()
    while len(started := family(shell.pid)) < 2:
        assert shell.poll() is None
    for base in bases(groups):
        members = {int(pid) for path in base.glob("*/cgroup.procs") for pid in path.read_text().split()}
        assert members == set(started)
    for pid in started:
        os.kill(pid, signal.SIGKILL)
    shell.wait()
    groups.release(group)


def test_memory_beyond_the_limit_is_killed_and_counted(groups: ControlGroups) -> None:
    group = groups.take(LIMITS)
    program = f"import sys; sys.stdin.read(1); x = bytearray({128 * MIB})"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        group.add([process.pid])
        process.communicate(b"x")
    assert process.returncode == -signal.SIGKILL
    assert group.memory_kills() == 1
    assert group.memory_kills() == 0


def test_a_limit_of_processors_is_enforced_and_shown(session: Session, endpoint: DaemonEndpoint) -> None:
    limited, free = session.sandbox(resources={"limits": {"cpu": "200m"}}), session.sandbox()
    limited.wait(), free.wait()
    if not (limited.resource_limits or {}).get("cpu"):
        pytest.skip("no control groups with the controller cpu can be made here")
    assert limited.resource_limits == {"cpu": "0.2", "memory": str(512 * MIB)}
    assert not (free.resource_limits or {}).get("cpu")
    busy = [each.exec(["python", "-c", "while True: pass"]) for each in (limited, free)]
    statistics = [path for base in directories(endpoint.pid) for path in base.glob("*/cpu.stat")]
    assert len(statistics) == 1
    wait_until(lambda: re.search(r"nr_throttled [1-9]", statistics[0].read_text()) is not None)
    for process in busy:
        process.cancel()


def test_a_group_is_used_again_only_when_it_is_empty(groups: ControlGroups) -> None:
    group = groups.take(LIMITS)
    process = subprocess.Popen(["sleep", "60"])
    group.add([process.pid])
    groups.release(group)
    other = groups.take(LIMITS)
    assert other is not group
    process.kill()
    process.wait()
    groups.release(other)
    assert {groups.take(LIMITS), groups.take(LIMITS)} == {group, other}
    assert groups.take(GroupLimits(32 * MIB, 32)) not in (group, other)


def test_groups_that_somebody_removed_are_made_again(groups: ControlGroups) -> None:
    for base in bases(groups):
        base.rmdir()
    groups.release(groups.take(LIMITS))
    assert all(base.is_dir() for base in bases(groups))


def test_groups_of_a_dead_daemon_are_removed_by_the_next_one(groups: ControlGroups) -> None:
    program = "from sandrl.runtime.host.control_groups import *; ControlGroups.find().take(GroupLimits(1 << 26, 32))"
    dead = subprocess.Popen([sys.executable, "-c", program])
    assert dead.wait() == 0
    assert directories(dead.pid)
    ControlGroups.find().close()
    assert not directories(dead.pid)
    assert all(base.is_dir() for base in bases(groups)), "those of a living process stay"


def test_a_daemon_that_ends_leaves_no_group(groups: ControlGroups, endpoint: DaemonEndpoint) -> None:
    assert directories(endpoint.pid)
    assert "control group" in daemon.status(endpoint.state_dir).isolation_detail
    daemon.stop(endpoint.state_dir)
    assert not directories(endpoint.pid)


def test_every_process_of_a_sandbox_is_in_its_group(
    groups: ControlGroups, session: Session, endpoint: DaemonEndpoint
) -> None:
    sandbox = session.sandbox()
    marker = "2718.28"
    sandbox.exec(["sh", "-c", f"(setsid setsid sleep {marker} &) ; sleep {marker}"])
    wait_until(lambda: len(_running(marker)) >= 2)
    members = {
        int(pid)
        for base in directories(endpoint.pid)
        for path in base.glob("*/cgroup.procs")
        for pid in path.read_text().split()
    }
    assert set(_running(marker)) <= members
    sandbox.stop().result()


def _running(marker: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"sleep\0{marker}\0".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
