"""Finds the processes of a worker sandbox on this machine, to end or stop them from outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class WorkerProcesses(NamedTuple):
    """Process ids on this machine.

    Attributes:
        forker: Clones the cells.
        router: Takes the requests; a child of the forker.
    """

    forker: int
    router: int


def find_worker(daemon: int) -> WorkerProcesses | None:
    """The processes of the only worker of a daemon; None if there is none.

    In a sandbox that judges one completion, a process and its child share a process namespace, too: while there are
    such sandboxes, the one whose child has the namespaces of a cell's parent is taken.
    """
    parents: dict[int, int] = {}
    spaces: dict[int, str] = {}
    users: dict[int, str] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
                spaces[int(name)] = os.readlink(f"/proc/{name}/ns/pid")
                users[int(name)] = os.readlink(f"/proc/{name}/ns/user")
            except OSError:
                continue
    for router, forker in parents.items():
        agent = parents.get(forker, 0)
        same_space = spaces.get(router) == spaces.get(forker, "") == spaces.get(agent, "") != spaces[os.getpid()]
        ancestor = agent
        while ancestor not in (0, daemon):
            ancestor = parents.get(ancestor, 0)
        # A worker has made itself a user namespace, and a judge has not.
        if ancestor and same_space and users.get(router) == users.get(forker) != users.get(agent):
            return WorkerProcesses(forker, router)
    return None
