"""The directories on the disk that sandboxes write to, beside the layers of images.

Each daemon has a number, and a lock that the kernel frees when the daemon ends, also if it is killed. The next daemon
removes the directories of those that have ended.
"""

from __future__ import annotations

import logging
import os
import uuid
from contextlib import suppress
from pathlib import Path

from sandrl.runtime.guest.storage import LEAST_FREE_BYTES, remove_tree
from sandrl.runtime.images import locks

logger = logging.getLogger(__name__)

_LOCK = ".lock"
# A limit reserves nothing: most tasks name 10 GiB and write a few MiB.
_LEAST_ROOM_BYTES = 1 << 30


class NoSpaceError(Exception):
    """The file system has less room than a sandbox starts with."""


class Spaces:
    """Those of one daemon, in a directory that daemons of its user share.

    Raises:
        OSError: If the directory cannot be written to.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        self._number = uuid.uuid4().hex
        self._lock = locks.take(directory / f"{self._number}{_LOCK}", exclusive=True)
        self._made = 0

    def make(self, owner: int | None, most_bytes: int) -> str:
        """Makes a directory, and gives it to a user of the host; returns its name.

        Raises:
            NoSpaceError: If there is room neither for what may be written to it nor for 1 GiB.
            OSError: If it cannot be made.
        """
        usage = os.statvfs(self.directory)
        free = usage.f_bavail * usage.f_frsize - LEAST_FREE_BYTES
        if (needed := min(most_bytes, _LEAST_ROOM_BYTES)) > free:
            wanted, there = (f"{each >> 20} MiB" for each in (needed, max(free, 0)))
            raise NoSpaceError(f"a sandbox needs {wanted} on disk at its start, and {self.directory} has {there}")
        self._made += 1
        path = self.directory / f"{self._number}-{self._made}"
        path.mkdir(mode=0o700)
        if owner is not None:
            os.chown(path, owner, owner)
        return path.name

    def remove(self, name: str) -> bool:
        """Removes a directory; whether this process may."""
        try:
            remove_tree(str(self.directory / name))
        except OSError as error:
            logger.info("%s is not removed by this process: %s", name, error)
            return False
        return True

    def leftovers(self) -> list[str]:
        """The directories of daemons that have ended."""
        names = os.listdir(self.directory)
        living = {self._number}
        for name in names:
            number, ending, _ = name.partition(_LOCK)
            if ending and number not in living:
                lock = locks.take_free(self.directory / name, exclusive=True)
                if lock is None:
                    living.add(number)
                elif any(each.startswith(f"{number}-") for each in names):
                    os.close(lock)
                else:
                    locks.remove(self.directory / name, lock)
        return [name for name in names if not name.endswith(_LOCK) and name.partition("-")[0] not in living]

    def close(self) -> None:
        """Lets the lock go; the directories that are left are removed by the next daemon."""
        path = self.directory / f"{self._number}{_LOCK}"
        with suppress(OSError):
            if any(name.startswith(f"{self._number}-") for name in os.listdir(self.directory)):
                os.close(self._lock)
            else:
                locks.remove(path, self._lock)
