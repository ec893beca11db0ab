"""What a worker sandbox may use: what its cells may use together, and never all that the machine has."""

from __future__ import annotations

import ast
import inspect
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandrl.runtime import limits
from sandrl.runtime.guest import processes, watchdog
from sandrl.runtime.host.control_groups import GroupLimits
from sandrl.runtime.host.launcher import BootRequest, worker_memory_bytes

MIB = 1 << 20


def test_an_ordinary_sandbox_has_the_limits_of_its_request() -> None:
    request = BootRequest("3.11")
    assert request.together() == request
    assert GroupLimits.of(request).memory_bytes == limits.MEMORY_BYTES + limits.DISK_BYTES + 64 * MIB


def test_a_worker_has_the_limits_of_its_cells_together() -> None:
    together = BootRequest("3.11", memory_bytes=8 * MIB, processes=10, sockets=7, cells=3).together()
    assert (together.memory_bytes, together.processes, together.sockets) == (24 * MIB, 30, 21)
    assert (together.disk_bytes, together.inodes) == (limits.DISK_BYTES, limits.INODES)


def test_a_worker_leaves_memory_and_processes_to_others_and_has_those_of_one_sandbox_at_least() -> None:
    everything = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert worker_memory_bytes() == everything * 3 // 4
    many = BootRequest("3.11", memory_bytes=1 << 40, processes=1 << 30, cells=256)
    assert many.together().memory_bytes == many.memory_bytes
    assert many.together().processes == many.processes
    few = BootRequest("3.11", memory_bytes=everything // 2, cells=2).together()
    assert few.memory_bytes == worker_memory_bytes()
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    assert BootRequest("3.11", processes=most // 8, cells=3).together().processes == most // 4


def test_the_group_of_a_worker_has_room_for_the_files_of_its_cells() -> None:
    request = BootRequest("3.11", memory_bytes=8 * MIB, disk_bytes=4 * MIB, cells=3)
    assert GroupLimits.of(request).memory_bytes == (3 * (8 + 4) + 4 + 64) * MIB
    large = BootRequest("3.11", memory_bytes=worker_memory_bytes() // 2, cells=2, disk_bytes=4 * MIB)
    assert GroupLimits.of(large).memory_bytes == worker_memory_bytes() + (4 + 64) * MIB


def test_objects_counted_per_user_of_the_host_are_bounded_for_all_cells() -> None:
    one, many = watchdog.ObjectLimits(), watchdog.ObjectLimits(256)
    assert (one.pipes, one.epoll_watches) == (watchdog.PIPES, watchdog.EPOLL_WATCHES)
    assert many.descriptors == 256 * one.descriptors
    of_user = int(Path("/proc/sys/fs/pipe-user-pages-soft").read_text()) // 16
    assert many.pipes == max(one.pipes, min(256 * one.pipes, of_user // 2))
    of_user = int(Path("/proc/sys/fs/epoll/max_user_watches").read_text())
    assert many.epoll_watches == max(one.epoll_watches, min(256 * one.epoll_watches, of_user // 2))


@pytest.mark.parametrize(("hard", "cells", "expected"), [(4096, 0, 512), (4096, 4, 1152), (4096, 256, 2048)])
def test_a_worker_may_open_files_for_its_cells_and_its_agent_more(hard: int, cells: int, expected: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip("this process may open fewer files")
    program = (
        "import resource, sys\n"
        "from sandrl.runtime.guest import processes\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({hard}, {hard}))\n"
        f"processes.limit_open_files({cells})\n"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(expected)] * 2


def loaded_as_text() -> dict[str, Any]:
    """The watchdog as a worker loads it: without the package."""
    namespace: dict[str, Any] = {"__name__": "watch"}
    for module in (processes, watchdog):
        tree = ast.parse(inspect.getsource(module))
        tree.body = [
            statement
            for statement in tree.body
            if not (isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("sandrl"))
        ]
        exec(compile(tree, module.__name__, "exec"), namespace)
    return namespace


def test_the_watchdog_can_be_loaded_as_text_and_looks_at_chosen_processes() -> None:
    watch = loaded_as_text()
    most = watch["ObjectLimits"]()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            hidden = watch["_HiddenMemory"](most)
            hidden.measure([sleeper.pid], network_of=sleeper.pid)
            assert hidden.bytes_of.keys() == {sleeper.pid}
            assert 0 < hidden.mappings < most.mappings
            assert watch["_Objects"](most).breach([sleeper.pid], ()) is None
            with socket.socket():
                assert watch["sockets"](sleeper.pid) > 0
        finally:
            sleeper.kill()
    assert watch["sockets"](sleeper.pid) == 0, "a process that has ended has none"
