"""Completions in one sandbox as processes of different users, if cells are not available and the user chooses this.

A place has the interface of a cell, but weaker isolation. Its processes have a user id of their own, with which they
can neither signal nor read those of other users, and a directory of their own. Everything that they leave behind is
found by that id: processes, files where everyone may write, System V objects. They share the rest of the sandbox with
the others: the network, `/proc`, memory and disk. The judge stays root, as in any such sandbox.
"""

# The style is explained in `descriptors.py`.

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import posix
from time import sleep
from typing import TYPE_CHECKING

from sandrl.rewards.guest.cell import PR_SET_PDEATHSIG, limit_resources, must
from sandrl.rewards.guest.child import PR_SET_NO_NEW_PRIVS
from sandrl.rewards.guest.places import (
    IPC_KINDS,
    SHARED_PLACES,
    Removal,
    become,
    names_in,
    objects_of,
    read_lines,
    remove_inside,
    remove_own,
)

if TYPE_CHECKING:
    from sandrl.rewards.guest.cell import CellLimits
    from sandrl.rewards.guest.descriptors import Libc

# Ids that images give to nobody; one is used again after all others.
FIRST_USER, USERS = 31_000, 20_000
LOOKS_FOR_PROCESSES = 200
LOOK_SECONDS = 0.01


class Users:
    """Makes places for completions, each with a user of its own.

    Args:
        call: Calls libc.
        limits: What each may use.

    Attributes:
        user: The user of the latest place.
    """

    def __init__(self, call: Libc, limits: CellLimits) -> None:
        self.call = call
        self.limits = limits
        self.user = FIRST_USER
        self.folder = ""

    def trial(self) -> str:
        """Tries a user; returns why places cannot be made, empty if they can."""
        if posix.getuid() != 0:
            return "processes of different users need a sandbox whose programs run as root"
        reading, writing = posix.pipe()
        pid = posix.fork()
        if pid == 0:
            try:
                become(self.user)
                if any(posix.access(path + "/os.py", posix.R_OK) for path in module_path()):
                    posix.write(writing, b".")
                    while True:
                        sleep(1)  # to be killed is part of the trial
            finally:
                posix._exit(1)
        posix.close(writing)
        can_run = posix.read(reading, 1) == b"."
        posix.close(reading)
        try:
            posix.kill(pid, _signal.SIGKILL)
            posix.waitpid(pid, 0)
        except OSError:
            return "a process of another user cannot be killed"
        return "" if can_run else "the sandbox refuses another user, or that user cannot run Python"

    def settle(self) -> str:
        """Makes a directory that only root can read, for what completions must not see; returns it."""
        self.folder = f"/tmp/.sandrl-{posix.getpid()}-{int.from_bytes(posix.urandom(6), 'little'):x}"
        posix.mkdir(self.folder, 0o700)
        spool = self.folder + "/spool"
        posix.mkdir(spool, 0o700)
        # Users pass through to directories of their own, whose names they know.
        posix.chmod(self.folder, 0o711)
        return spool

    def clone(self) -> int:
        """Forks this process for the next user.

        Returns:
            The id of the new process; 0 in that process.
        """
        self.user = FIRST_USER + (self.user + 1 - FIRST_USER) % USERS
        return posix.fork()

    def enter(self) -> None:
        """Gives the process what its completion may use; the completion's process becomes the user's (`child.py`).

        Raises:
            OSError: If a step of it is refused.
        """
        must(self.call, "prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
        place = self.place_of(self.user)
        posix.mkdir(place, 0o700)
        posix.chown(place, self.user, self.user)
        posix.chdir(place)
        must(self.call, "prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        limit_resources(self.call, self.limits)

    def place_of(self, user: int) -> str:
        """The directory of a user."""
        return f"{self.folder}/{user}"

    def start_clearing(self, user: int) -> int:
        """Removes what a user has left in a process of its own; returns its id. It exits with 0 if all is gone."""
        pid = posix.fork()
        if pid == 0:
            status = 1
            try:
                status = int(not self.clear(user))
            finally:
                posix._exit(status)
        return pid

    def clear(self, user: int) -> bool:
        """Removes what a user has left: processes, then objects and files; returns whether all is gone."""
        for look in range(LOOKS_FOR_PROCESSES):
            pids = processes_of(user)
            if not pids:
                break
            killer = posix.fork()
            if killer == 0:
                try:
                    become(user)
                    posix.kill(-1, _signal.SIGKILL)
                finally:
                    posix._exit(0)
            posix.waitpid(killer, 0)
            if look:
                sleep(LOOK_SECONDS)
        for kind, name, arguments in IPC_KINDS:
            for number in objects_of(kind, user):
                self.call(name, number, *arguments)
        place = self.place_of(user)
        remover = posix.fork()
        if remover == 0:
            try:
                # Not as root: a neighbour may put a link in the place of a directory at any moment.
                become(user)
                removal = Removal(1 << 40)
                remove_inside(place, removal)
                for folder in SHARED_PLACES:
                    remove_own(folder, user, removal)
            finally:
                posix._exit(0)
        posix.waitpid(remover, 0)
        try:
            posix.rmdir(place)
        except OSError:
            return False
        return not processes_of(user)


def module_path() -> list[str]:
    """Where modules are looked for."""
    found: list[str] = __import__("sys").path
    return found


def user_of(pid: int | str) -> int:
    """The real user of a process, which it cannot hide; -1 if it is gone, or waits to be waited for."""
    user, is_alive = -1, True
    for line in read_lines(f"/proc/{pid}/status"):
        if line.startswith(b"Uid:"):
            user = int(line.split()[1])
        elif line.startswith(b"State:"):
            is_alive = line.split()[1] not in (b"Z", b"X")
    return user if is_alive else -1


def processes_of(user: int) -> list[int]:
    """The processes of a user that still run."""
    return [int(name) for name in names_in("/proc") if name.isdigit() and user_of(name) == user]
