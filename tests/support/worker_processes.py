"""Finds the processes of a worker sandbox on this machine, to end or stop them from outside."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import NamedTuple

NS_GET_PARENT = 0xB702


class WorkerProcesses(NamedTuple):
    """Process ids on this machine."""

    forker: int
    router: int
    judges: tuple[int, ...]


def find_worker(daemon: int) -> WorkerProcesses | None:
    """The processes of the only worker of a daemon; None if there is none.

    In a sandbox that judges one completion, a process and its child share a process namespace, too. A worker has made
    itself a user namespace in that of its sandbox, whose first process an ordinary user cannot look at, and goes on as
    process 1 of a process namespace.
    """
    parents: dict[int, int] = {}
    spaces: dict[int, str] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
                spaces[int(name)] = os.readlink(f"/proc/{name}/ns/pid")
    for router, forker in sorted(parents.items()):
        # The forker forks the router before it forks a judge.
        if not spaces.get(router, "") == spaces.get(forker) != spaces[os.getpid()]:
            continue
        agent = parents.get(parents.get(forker, 0), 0)
        starter = parents.get(agent, 0)
        ancestor = starter
        while ancestor not in (0, daemon):
            ancestor = parents.get(ancestor, 0)
        if ancestor and user_namespaces_of(forker) == user_namespaces_of(starter) + 2 == user_namespaces_of(router):
            judges = [pid for pid in parents if parents[pid] == forker and spaces.get(pid) == spaces[forker]]
            return WorkerProcesses(forker, router, tuple(pid for pid in judges if pid != router))
    return None


def user_namespaces_of(pid: int) -> int:
    """How many user namespaces a process is in, from its own to that of this process; 0 if it is gone."""
    count = 0
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        descriptor = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        while True:
            stack.callback(os.close, descriptor)
            count += 1
            # Beyond that of this process it is refused.
            descriptor = fcntl.ioctl(descriptor, NS_GET_PARENT)
    return count
