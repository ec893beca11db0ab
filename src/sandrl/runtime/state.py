"""The files by which clients find a daemon and detect whether it is alive.

A daemon holds a lock on a file for as long as it lives. Only this lock shows that it lives: a process id can be reused
and a state file outlives `kill -9`, but the kernel always releases a lock. Each version of the runtime, by content, has
a directory of its own, so an upgrade never talks to the daemon of an older version. Commands that look at sandboxes, or
stop them, find the daemons of all versions and environments (`find_all`): the process that holds the lock is the
daemon, regardless of the version that wrote its files.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sandrl import __version__
from sandrl.errors import RuntimeUnavailableError, SandrlError
from sandrl.files import read_regular, write_whole
from sandrl.runtime import libraries
from sandrl.runtime.guest.rootfs import PREBUILT
from sandrl.settings import private_directory

_STATE, _TOKEN, _ALIVE, _START, _LOG = "daemon.json", "token", "alive.lock", "start.lock", "daemon.log"
_ROSTER = "sandboxes.json"
_FOLDER = "runtime"
_MOST_BYTES = 64 << 10
_MOST_ROSTER_BYTES = 64 << 20
_SOURCES = Path(__file__).resolve().parent


@dataclass(frozen=True)
class DaemonEndpoint:
    """A running daemon.

    Attributes:
        base_url: `http://127.0.0.1:PORT`, for `CWSANDBOX_BASE_URL`.
        token: The bearer token it demands, for `CWSANDBOX_API_KEY`.
        name: The name of its directory in there: the version of its sandrl, and a fingerprint.
        environment: The environment whose Python it runs; empty if it does not say so.
    """

    base_url: str
    token: str = field(repr=False)
    pid: int = 0
    state_dir: Path = Path()
    name: str = ""
    environment: str = ""

    @property
    def version(self) -> str:
        return self.name.rpartition("-")[0]


def own_name() -> str:
    """Names this version of the runtime on this interpreter of this machine.

    Machines may share a home; a daemon of another one is at an address that leads nowhere here. Clients whose
    `LD_LIBRARY_PATH` leads to other shared libraries have a daemon of their own.
    """
    digest = hashlib.sha256(f"{__version__} {sys.base_prefix} {sys.version} {socket.gethostname()}".encode())
    digest.update(os.fsencode(libraries.describe_own()))
    for path in sorted(_SOURCES.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}".encode())
    return f"{__version__}-{digest.hexdigest()[:8]}"


class RuntimeDirectory:
    """The files of a daemon below a state directory: that of an existing name, or of this version, which is made.

    Raises:
        RuntimeUnavailableError: If the directory cannot be made, or belongs to someone else.
    """

    def __init__(self, state_dir: Path, name: str = "") -> None:
        self.state_dir = state_dir
        self.path = state_dir / _FOLDER / (name or own_name())
        if name:
            return
        try:
            for directory in (state_dir, state_dir / _FOLDER, self.path):
                private_directory(directory)
        except SandrlError as error:
            raise RuntimeUnavailableError(
                f"cannot use {self.path} for the local runtime: {error.message}", hint=error.hint
            ) from error

    @property
    def log(self) -> Path:
        return self.path / _LOG

    @property
    def overlays(self) -> Path:
        return self.path / "overlays"

    @property
    def snapshots(self) -> Path:
        """File-system snapshots, which daemons of all versions share."""
        return self.state_dir / "snapshots"

    @property
    def prebuilt(self) -> Path:
        """What every sandbox sees, read-only, at `limits.PREBUILT_PATH`; no overlay has this name."""
        return self.overlays / PREBUILT

    def make_shown(self) -> Path:
        """Makes the directories that sandboxes see; returns that of package overlays, which has the other."""
        for directory in (self.overlays, self.prebuilt):
            directory.mkdir(mode=0o755, exist_ok=True)
        return self.overlays

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Wait until no other process starts the daemon of this directory."""
        with self._open_lock(_START) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def hold_alive(self) -> BinaryIO | None:
        """Become the daemon of this directory for as long as the file is open, or None if there is one."""
        lock = self._open_lock(_ALIVE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return lock

    def _open_lock(self, name: str) -> BinaryIO:
        descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "rb")

    def write(self, endpoint: DaemonEndpoint) -> None:
        """Publish a daemon: the token for its user alone, then the address."""
        write_whole(self.path / _TOKEN, endpoint.token.encode())
        state = {"schema": 1, "base_url": endpoint.base_url, "pid": endpoint.pid, "environment": sys.prefix}
        write_whole(self.path / _STATE, json.dumps(state).encode())

    def write_roster(self, sandboxes: Sequence[tuple[str, list[str]]]) -> None:
        """Tell who completes command lines which sandboxes live: ids with their tags."""
        roster = {"schema": 1, "pid": os.getpid(), "sandboxes": sandboxes}
        write_whole(self.path / _ROSTER, json.dumps(roster).encode())

    def clear(self) -> None:
        for name in (_STATE, _TOKEN, _ROSTER):
            (self.path / name).unlink(missing_ok=True)

    def has_ended(self, endpoint: DaemonEndpoint) -> bool:
        """Whether a daemon of this directory is gone; one that is stopped by a signal is not."""
        try:
            if not self._has_daemon():
                return True
        except OSError:
            return False  # too many open files, say, tell nothing of it
        found = self.find()
        return found is not None and found != endpoint

    def find(self) -> DaemonEndpoint | None:
        """The daemon of this directory, if one is alive and has published its address."""
        if not self._has_daemon():
            return None
        try:
            state = json.loads(read_regular(self.path / _STATE, _MOST_BYTES, follow=False))
            token = read_regular(self.path / _TOKEN, _MOST_BYTES, follow=False).decode("utf-8")
            return DaemonEndpoint(
                str(state["base_url"]),
                token,
                int(state["pid"]),
                self.state_dir,
                self.path.name,
                str(state.get("environment") or ""),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # it lives but is still starting, or is already leaving

    def find_here(self) -> DaemonEndpoint | None:
        """The daemon of this directory if it is a process of this machine; without an address if its files are damaged.

        Machines may share a home, and then also the locks of its files. A daemon that is starting has no file yet, or
        that of an earlier one.
        """
        if not self._has_daemon():
            return None
        found = self.find()
        if found is not None and self._is_held_by(found.pid):
            return found
        if found is not None or not os.path.lexists(self.path / _STATE):
            return None
        pid = next((pid for pid in _own_processes() if self._is_held_by(pid)), None)
        return None if pid is None else DaemonEndpoint("", "", pid, self.state_dir, self.path.name)

    def count_sandboxes(self) -> int:
        """How many sandboxes the daemon of this directory has, by its file for shells; 0 if that is not there."""
        try:
            return len(json.loads(read_regular(self.path / _ROSTER, _MOST_ROSTER_BYTES, follow=False))["sandboxes"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _has_daemon(self) -> bool:
        try:
            probe = os.open(self.path / _ALIVE, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        try:
            # A shared lock: two processes that look at the same time do not take each other for the daemon.
            fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(probe)
        return False

    def _is_held_by(self, pid: int) -> bool:
        try:
            lock = os.stat(self.path / _ALIVE)
            descriptors = sorted(map(int, os.listdir(f"/proc/{pid}/fd")))
        except (OSError, ValueError):
            return False
        for descriptor in descriptors:
            with suppress(OSError):
                if os.path.samestat(lock, os.stat(f"/proc/{pid}/fd/{descriptor}")):
                    # Another process may be looking at the same file.
                    return "FLOCK" in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text()
        return False


def find_all(state_dir: Path) -> list[DaemonEndpoint]:
    """The daemons of this user on this machine, of all versions and environments, that of this one first.

    One without an address has damaged files.
    """
    own = own_name()
    try:
        with os.scandir(state_dir / _FOLDER) as found:
            names = [each.name for each in found if each.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    daemons = []
    for name in sorted(names, key=lambda name: (name != own, name)):
        with suppress(OSError):  # a directory of someone else's has no daemon of this user
            daemon = RuntimeDirectory(state_dir, name).find_here()
            if daemon is not None:
                daemons.append(daemon)
    return daemons


def _own_processes() -> Iterator[int]:
    for name in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            if os.stat(f"/proc/{int(name)}").st_uid == os.geteuid():
                yield int(name)
