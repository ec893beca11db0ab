"""Completions in one sandbox as processes of different users, if cells are not available and the user chooses this.

A place has the interface of a cell, but weaker isolation. Its processes have a user id of their own, with which they
can neither signal nor read those of other users, and a directory of their own. Everything that they leave behind is
found by that id: processes, files where everyone may write, System V objects. They share the rest of the sandbox with
the others: the network, `/proc`, memory and disk. The judge stays root, as in any such sandbox.
"""

# The style is explained in `descriptors.py`.
# ruff: noqa: UP037

import _signal  # type: ignore[import-not-found]
import posix
from time import sleep

MYPY = False
if MYPY:
    from sandrl.rewards.guest.cell import CellLimits
    from sandrl.rewards.guest.descriptors import Libc
if "request_size" not in globals():
    # Shipped, the files of this package are one and share a namespace; only their tests import them.
    from sandrl.rewards.guest.cell import PR_SET_PDEATHSIG, limit_resources, must
    from sandrl.rewards.guest.child import PR_SET_NO_NEW_PRIVS

# Ids that images give to nobody; one is used again after all others.
FIRST_USER, USERS = 31_000, 20_000
# Where everyone may write.
SHARED_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
LOOKS_FOR_PROCESSES = 200
MOST_LOOKED_AT = 100_000
LOOK_SECONDS = 0.01
IPC_REMOVE = 0
# How the objects of System V are removed: the file that lists them, the call, and its arguments after the id.
IPC_KINDS = (("shm", "shmctl", (IPC_REMOVE, 0)), ("msg", "msgctl", (IPC_REMOVE, 0)), ("sem", "semctl", (0, IPC_REMOVE)))


class Users:
    """Makes places for completions, each with a user of its own.

    Args:
        call: Calls libc.
        limits: What each may use.

    Attributes:
        user: The user of the latest place.
    """

    def __init__(self, call: "Libc", limits: "CellLimits") -> None:
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
                remove_inside(place)
                for folder in SHARED_PLACES:
                    remove_own(folder, user)
            finally:
                posix._exit(0)
        posix.waitpid(remover, 0)
        try:
            posix.rmdir(place)
        except OSError:
            return False
        return not processes_of(user)


def module_path() -> "list[str]":
    """Where modules are looked for."""
    found: "list[str]" = __import__("sys").path
    return found


def become(user: int) -> None:
    """Makes this process another user's, for good.

    Raises:
        OSError: If it is refused.
    """
    posix.setgroups([])
    posix.setresgid(user, user, user)
    posix.setresuid(user, user, user)


def names_in(folder: str) -> "list[str]":
    """What is in a directory; nothing if there is none."""
    try:
        return posix.listdir(folder)
    except OSError:
        return []


def read_lines(path: str) -> "list[bytes]":
    """The lines of a file of the kernel; none if it is gone."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY)
    except OSError:
        return []
    blocks = []
    try:
        while True:
            blocks.append(posix.read(descriptor, 1 << 16))
            if not blocks[-1]:
                break
    except OSError:
        pass
    finally:
        posix.close(descriptor)
    return b"".join(blocks).split(b"\n")


def user_of(pid: "int | str") -> int:
    """The real user of a process, which it cannot hide; -1 if it is gone, or waits to be waited for."""
    user, is_alive = -1, True
    for line in read_lines(f"/proc/{pid}/status"):
        if line.startswith(b"Uid:"):
            user = int(line.split()[1])
        elif line.startswith(b"State:"):
            is_alive = line.split()[1] not in (b"Z", b"X")
    return user if is_alive else -1


def processes_of(user: int) -> "list[int]":
    """The processes of a user that still run."""
    return [int(name) for name in names_in("/proc") if name.isdigit() and user_of(name) == user]


def objects_of(kind: str, user: int) -> "list[int]":
    """The ids of a user's System V objects of a kind."""
    lines = read_lines(f"/proc/sysvipc/{kind}")
    titles = lines[0].split() if lines else []
    if b"uid" not in titles:
        return []
    identity = next(place for place, title in enumerate(titles) if title in (b"shmid", b"msqid", b"semid"))
    owners = titles.index(b"uid"), titles.index(b"cuid")
    rows = [line.split() for line in lines[1:] if line]
    return [int(row[identity]) for row in rows if user in [int(row[owner]) for owner in owners]]


def remove_own(top: str, user: int) -> None:
    """Removes what a user has put into a directory where everyone may write, and into others of that kind in it."""
    folders = [top]
    looked = 0
    while folders:
        folder = folders.pop()
        for name in names_in(folder):
            looked += 1
            if looked > MOST_LOOKED_AT:
                return
            path = f"{folder}/{name}"
            try:
                found = posix.lstat(path)
            except OSError:
                continue
            is_folder = found.st_mode & 0o170000 == 0o040000
            if found.st_uid == user:
                if is_folder:
                    remove_inside(path)
                remove(path, is_folder)
            elif is_folder and found.st_mode & 0o002:
                folders.append(path)


def remove(path: str, is_folder: bool) -> bool:
    """Removes a file, or a directory that is empty; returns whether that was possible."""
    try:
        (posix.rmdir if is_folder else posix.unlink)(path)
    except OSError:
        return False
    return True


def remove_inside(top: str) -> None:
    """Removes all that is in a directory, however deep."""
    entered: "list[tuple[str, list[str]]]" = []
    try:
        posix.chmod(top, 0o700)
        posix.chdir(top)
    except OSError:
        return
    waiting = names_in(".")
    while waiting or entered:
        if not waiting:
            name, waiting = entered.pop()
            posix.chdir("..")
            remove(name, is_folder=True)
            continue
        name = waiting.pop()
        if remove(name, is_folder=False) or remove(name, is_folder=True):
            continue
        try:
            if posix.lstat(name).st_mode & 0o170000 == 0o040000:
                posix.chmod(name, 0o700)
                posix.chdir(name)
                entered.append((name, waiting))
                waiting = names_in(".")
        except OSError:
            pass  # gone, or another user's
    posix.chdir("/")
