"""The files of a sandbox on the disk of this machine: a directory that only this sandbox has, its space.

The kernel limits the size of a file system and of one file, and not of a directory. So the agent measures the space:
its files, and files that were removed but that a program still has open. It measures again as soon as the file system
has lost as much room as the sandbox had left.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time

from sandrl.runtime.guest import processes

SPACES, SPACE = "/spaces", "/space"
"""Where the template has the spaces of all sandboxes, and where a sandbox mounts its own."""
LEAST_FREE_BYTES = 512 << 20
"""What stays free of the file system, whatever sandboxes may write."""

_LEAST_LOST_BYTES, _LEAST_LOST_INODES = 1 << 30, 1 << 20
_SLACK_BYTES, _SLACK_INODES, _LATER_SHARE = 16 << 20, 1024, 16
_DEEPEST = 200
_PAUSES_PER_LOOK = 9.0
_BLOCK_BYTES = 512
_BYTES_PER_INODE = 16 << 10
_CHUNK_BYTES = 16 << 20
_FICLONE = 0x40049409
_OPAQUE = "user.overlay.opaque"
_OWN_ATTRIBUTES = ("user.overlay.", "trusted.", "system.")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Storage:
    """Measures a space against the limits of its sandbox.

    Programs are to be killed when it holds too much. Those that begin afterwards may go on while it hardly grows: they
    may tidy up, and a state can be kept. What is added until it is below the limit again is bounded in sum.

    Args:
        space: A descriptor of the directory, which is the root of a mount.
        most_bytes: What may be added to what is there now.
        most_inodes: The same for files and directories.

    Attributes:
        is_lost: Whether the sandbox is to end: it held so much at the last look that killing programs is not enough,
            or the file system was full, which no program is to blame for.
    """

    def __init__(self, space: int, most_bytes: int, most_inodes: int) -> None:
        self.space = space
        self._devices = {os.fstat(space).st_dev, os.stat("/").st_dev}
        used_bytes, used_inodes = _measure(space) or (0, 0)
        self.is_lost = False
        self._lost_bytes = used_bytes + most_bytes + max(most_bytes, _LEAST_LOST_BYTES)
        self._most_bytes = used_bytes + most_bytes
        self._most_inodes = used_inodes + max(most_inodes, most_bytes // _BYTES_PER_INODE)
        self._lost_inodes = self._most_inodes + max(self._most_inodes, _LEAST_LOST_INODES)
        self._allowed_bytes, self._allowed_inodes = self._most_bytes, self._most_inodes
        self._killed: set[int] = set()
        self._is_settling = False
        self._left, self._free = most_bytes, self._free_bytes()
        self._measured = self._took = 0.0

    def is_exceeded(self, found: list[int]) -> bool:
        """Whether the space holds too much, or the file system is full; `found` are the processes of the sandbox.

        If so, all of these are to be killed.
        """
        free = self._free_bytes()
        is_full = free < LEAST_FREE_BYTES
        began = time.monotonic()
        shrinks = is_full or self._is_settling or self._free - free >= self._left
        if began < self._measured + self._took * (1.0 if shrinks else _PAUSES_PER_LOOK):
            self.is_lost = self.is_lost or is_full
            return is_full
        measured = _measure(self.space)
        self._measured, self._free = time.monotonic(), free
        self._took = self._measured - began
        if measured is None:
            return True
        used_bytes, used_inodes = measured[0] + self._removed_bytes(found), measured[1]
        if used_bytes <= self._most_bytes and used_inodes <= self._most_inodes:
            self._allowed_bytes, self._allowed_inodes, self._is_settling = self._most_bytes, self._most_inodes, False
        elif self._is_settling and self._killed.isdisjoint(found):
            self._settle(used_bytes, used_inodes)
        self._left = self._allowed_bytes - used_bytes
        self.is_lost = is_full or used_inodes > self._lost_inodes or used_bytes > self._lost_bytes
        is_beyond = self._left < 0 or used_inodes > self._allowed_inodes
        if is_beyond and not self._is_settling:
            self._killed, self._is_settling = set(found), True
        return is_full or is_beyond

    def _settle(self, used_bytes: int, used_inodes: int) -> None:
        # Those that were killed have ended, so this is what they have left. The file system needs a little room itself.
        is_first = (self._allowed_bytes, self._allowed_inodes) == (self._most_bytes, self._most_inodes)
        share = 1 if is_first else _LATER_SHARE
        self._allowed_bytes = max(self._allowed_bytes, used_bytes + _SLACK_BYTES // share)
        self._allowed_inodes = max(self._allowed_inodes, used_inodes + _SLACK_INODES // share)
        self._is_settling = False

    def _free_bytes(self) -> int:
        usage = os.fstatvfs(self.space)
        return usage.f_bavail * usage.f_frsize

    def _removed_bytes(self, found: list[int]) -> int:
        removed: dict[tuple[int, int], int] = {}
        for pid in found:
            place = processes.place_of(pid)
            with contextlib.suppress(OSError):
                for name in os.listdir(f"{place}/fd"):
                    with contextlib.suppress(OSError):
                        status = os.stat(f"{place}/fd/{name}")
                        if not status.st_nlink and status.st_dev in self._devices:
                            removed[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
        return sum(removed.values())


def _measure(space: int) -> tuple[int, int] | None:
    # Bytes and inodes below a directory; None if it is nested too deep to be measured.
    used_bytes = inodes = 0
    linked: set[int] = set()
    opened: list[tuple[int, list[str]]] = []
    try:
        opened.append(_listed(".", space))
        while opened:
            directory, names = opened[-1]
            if not names:
                os.close(directory)
                opened.pop()
                continue
            name = names.pop()
            with contextlib.suppress(OSError):  # a program has removed it meanwhile
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                    if status.st_ino in linked:
                        continue
                    linked.add(status.st_ino)
                used_bytes += status.st_blocks * _BLOCK_BYTES
                inodes += 1
                if stat.S_ISDIR(status.st_mode):
                    if len(opened) > _DEEPEST:
                        return None
                    opened.append(_listed(name, directory))
    finally:
        for directory, _ in opened:
            os.close(directory)
    return used_bytes, inodes


def _listed(name: str, parent: int) -> tuple[int, list[str]]:
    directory = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        return directory, os.listdir(directory)
    except BaseException:
        os.close(directory)
        raise


def remove_tree(path: str) -> None:
    """Remove a directory with all that is in it, whatever its modes and however deep it is nested.

    Directories are moved up until nothing is nested, so neither paths nor the number of descriptors grow. There may be
    none, and another process may remove the same one.
    """
    with contextlib.suppress(FileNotFoundError):
        parent = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _remove_in(parent, os.path.basename(path))
        finally:
            os.close(parent)


def _remove_in(parent: int, name: str) -> None:
    top, prefix, number = _entered(parent, name), os.urandom(8).hex(), 0
    try:
        while True:
            waiting = _emptied(top)
            while waiting:
                each = waiting.pop()
                with contextlib.suppress(FileNotFoundError):
                    directory = _entered(top, each)
                    try:
                        for inner in _emptied(directory):
                            os.close(_entered(directory, inner))  # moving a directory needs permission to write to it
                            number += 1
                            waiting.append(f"{prefix}-{number}")
                            os.rename(inner, waiting[-1], src_dir_fd=directory, dst_dir_fd=top)
                    finally:
                        os.close(directory)
                    os.rmdir(each, dir_fd=top)
            try:
                os.rmdir(name, dir_fd=parent)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                continue  # another process that removes it has moved something
            return
    finally:
        os.close(top)


def _entered(parent: int, name: str) -> int:
    found = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=found)
    finally:
        os.close(found)


def _emptied(directory: int) -> list[str]:
    # Removes the files of a directory; returns the names of the directories in it.
    names = []
    with os.scandir(directory) as entries:
        for each in list(entries):
            with contextlib.suppress(FileNotFoundError):
                if each.is_dir(follow_symlinks=False):
                    names.append(each.name)
                else:
                    os.unlink(each.name, dir_fd=directory)
    return names


def merge(layers: list[str], target: str) -> None:
    """Copy directories, the lowest first, into an empty one, as an overlay file system shows them.

    No link is followed: each parent of what is made was made as a directory, too.
    """
    for layer in layers:
        _merge(layer, target)


def _merge(layer: str, target: str) -> None:
    linked: dict[int, str] = {}
    directories: list[tuple[str, os.stat_result]] = []
    waiting = [""]
    while waiting:
        path = waiting.pop()
        source, place = f"{layer}{path}", f"{target}{path}"
        status = os.lstat(source)
        if not stat.S_ISDIR(status.st_mode):
            _remove(place)
        elif _is_opaque(source) or not _is_directory(place):
            _remove(place)
            os.mkdir(place, 0o700)
        if stat.S_ISDIR(status.st_mode):
            waiting += [f"{path}/{name}" for name in os.listdir(source)]
            directories.append((path, status))
        elif first := linked.get(status.st_ino):
            os.link(first, place, follow_symlinks=False)
        elif stat.S_ISREG(status.st_mode):
            _copy_file(source, place, status.st_size)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source), place)
        elif stat.S_ISFIFO(status.st_mode):
            os.mkfifo(place)
        else:
            continue  # a whiteout
        if not stat.S_ISDIR(status.st_mode):
            if status.st_nlink > 1:
                linked[status.st_ino] = place
            _copy_attributes(source, place, status)
    for path, status in reversed(directories):
        _copy_attributes(f"{layer}{path}", f"{target}{path}", status)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        remove_tree(path)


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _is_opaque(path: str) -> bool:
    try:
        return os.getxattr(path, _OPAQUE, follow_symlinks=False) == b"y"
    except OSError:
        return False


def _copy_file(source: str, place: str, size: int) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    writing = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.ioctl(writing, _FICLONE, reading)  # shares the blocks, where the file system can
        except OSError:
            os.truncate(writing, size)
            offset = 0
            while offset < size:
                try:
                    offset = os.lseek(reading, offset, os.SEEK_DATA)
                except OSError:
                    break  # nothing but a hole is left
                end = os.lseek(reading, offset, os.SEEK_HOLE)
                os.lseek(writing, os.lseek(reading, offset, os.SEEK_SET), os.SEEK_SET)
                while offset < end and (sent := os.sendfile(writing, reading, None, min(end - offset, _CHUNK_BYTES))):
                    offset += sent
    finally:
        os.close(reading)
        os.close(writing)


def _copy_attributes(source: str, place: str, status: os.stat_result) -> None:
    with contextlib.suppress(OSError):  # a user that this sandbox does not have
        os.chown(place, status.st_uid, status.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(status.st_mode):
        os.chmod(place, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source, follow_symlinks=False):
        if not name.startswith(_OWN_ATTRIBUTES):
            with contextlib.suppress(OSError):  # the file system of the copy has none
                os.setxattr(place, name, os.getxattr(source, name, follow_symlinks=False), follow_symlinks=False)
    os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)
