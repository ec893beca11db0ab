"""Finds and removes what programs can leave in a sandbox: files in writable places, and System V objects."""

from __future__ import annotations

import posix

# Where everyone may write.
SHARED_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
MOST_REMOVED = 200_000
IPC_REMOVE = 0
# How the objects of System V are removed: the file that lists them, the call, and its arguments after the id.
IPC_KINDS = (("shm", "shmctl", (IPC_REMOVE, 0)), ("msg", "msgctl", (IPC_REMOVE, 0)), ("sem", "semctl", (0, IPC_REMOVE)))
KIND_OF_FILE, DIRECTORY, PLAIN_FILE, LINK = 0o170000, 0o040000, 0o100000, 0o120000


def own_places() -> list[str]:
    """The working directory and the home of this process, where they are real directories and not all there is."""
    home = posix.environ.get(b"HOME", b"").decode("utf-8", "surrogateescape")
    found = [path for path in (posix.getcwd(), home) if path.strip("/") and is_directory(path)]
    return [path for path in found if posix.access(path, posix.R_OK)]


def kind_of(path: str) -> int:
    """What a path is; 0 if there is nothing."""
    try:
        return posix.lstat(path).st_mode & KIND_OF_FILE
    except OSError:
        return 0


def is_directory(path: str) -> bool:
    """Whether there is a directory; a link leads to a place of its own."""
    return path.startswith("/") and kind_of(path) == DIRECTORY


def names_in(folder: str | int) -> list[str]:
    try:
        return posix.listdir(folder)
    except OSError:
        return []


def read_lines(path: str) -> list[bytes]:
    try:
        descriptor = posix.open(path, posix.O_RDONLY)
    except OSError:
        return []
    try:
        return b"".join(iter(lambda: posix.read(descriptor, 1 << 16), b"")).split(b"\n")
    except OSError:
        return []
    finally:
        posix.close(descriptor)


def objects_of(kind: str) -> list[int]:
    lines = read_lines(f"/proc/sysvipc/{kind}")
    if len(lines) < 3:
        return []
    titles = lines[0].split()
    identity = next(place for place, title in enumerate(titles) if title in (b"shmid", b"msqid", b"semid"))
    return [int(line.split()[identity]) for line in lines[1:] if line]


def become(user: int) -> None:
    """Makes this process another user's, for good; OSError if it is refused."""
    posix.setgroups([])
    posix.setresgid(user, user, user)
    posix.setresuid(user, user, user)


class Removal:
    """Removes files and directories, however deep, and follows no link; at most `left` more.

    A directory that is not empty moves what is in it one level up at a time, so neither the depth of a tree nor the
    length of its paths matters.
    """

    def __init__(self, most: int = MOST_REMOVED) -> None:
        self.left = most
        self.moved = 0

    def remove(self, name: str, parent: int | None = None) -> bool:
        """Removes a path, or a name in the directory `parent`, with what is in it; returns whether it is gone."""
        waiting = [name]
        while waiting:
            if self.left <= 0:
                return False
            if self.is_gone(waiting[-1], parent):
                waiting.pop()
                continue
            found = self.empty(waiting[-1], parent, name)
            if not found and not self.is_gone(waiting[-1], parent):
                return False
            waiting += found
        return True

    def is_gone(self, name: str, parent: int | None) -> bool:
        self.left -= 1
        for way in (posix.unlink, posix.rmdir):
            try:
                way(name, dir_fd=parent)
            except FileNotFoundError:
                return True
            except OSError:
                continue
            return True
        return False

    def empty(self, name: str, parent: int | None, top: str) -> list[str]:
        """Empties a directory; returns the names that directories in it, which are not empty, have got beside it."""
        moved: list[str] = []
        folder, slash, _ = top.rpartition("/")
        try:
            descriptor = open_directory(name, parent)
        except OSError:
            return moved
        try:
            for each in names_in(descriptor):
                if self.left <= 0:
                    break
                if self.is_gone(each, descriptor):
                    continue
                self.moved += 1
                beside = f"{folder}{slash}.{self.moved}-{posix.urandom(6).hex()}"
                for is_again in (False, True):
                    try:
                        posix.rename(each, beside, src_dir_fd=descriptor, dst_dir_fd=parent)
                        moved.append(beside)
                        break
                    except OSError:
                        if is_again:
                            # Between file systems, or with a name that is too long.
                            Removal.remove(self, each, descriptor)
                        else:
                            posix.close(open_directory(each, descriptor))
        except OSError:
            pass  # what is left is found when this directory cannot be removed
        finally:
            posix.close(descriptor)
        return moved


def open_directory(name: str, parent: int | None = None) -> int:
    """Opens a directory; one of this user's is made accessible if it is not. OSError if it is another user's."""
    flags = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
    try:
        descriptor = posix.open(name, flags, dir_fd=parent)
        if posix.fstat(descriptor).st_mode & 0o700 != 0o700:
            posix.fchmod(descriptor, 0o700)
    except PermissionError:
        # Never root: no link of a neighbour can lead this to what its owner could not change.
        posix.chmod(name, 0o700, dir_fd=parent)
        descriptor = posix.open(name, flags, dir_fd=parent)
    return descriptor


def remove_all(name: str) -> bool:
    return Removal().remove(name)
