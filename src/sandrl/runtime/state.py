"""The files by which clients find a daemon and detect whether it is alive.

A daemon holds a lock on a file for as long as it lives. Only this lock shows that it lives: a process id can be reused
and a state file outlives `kill -9`, but the kernel always releases a lock. Each version of the runtime, by content, has
a directory of its own, so an upgrade never talks to the daemon of an older version.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandrl import __version__
from sandrl.errors import RuntimeUnavailableError, SandrlError
from sandrl.files import read_regular
from sandrl.runtime import libraries
from sandrl.runtime.guest.rootfs import PREBUILT
from sandrl.settings import private_directory

_STATE, _TOKEN, _ALIVE, _START, _LOG = "daemon.json", "token", "alive.lock", "start.lock", "daemon.log"
_ROSTER = "sandboxes.json"
_MOST_BYTES = 64 << 10
_SOURCES = Path(__file__).resolve().parent


@dataclass(frozen=True)
class DaemonEndpoint:
    """A running daemon.

    Attributes:
        base_url: `http://127.0.0.1:PORT`, for `CWSANDBOX_BASE_URL`.
        token: The bearer token it demands, for `CWSANDBOX_API_KEY`.
        pid: Its process id.
        state_dir: The state directory it was looked up in.
    """

    base_url: str
    token: str = field(repr=False)
    pid: int = 0
    state_dir: Path = Path()


def fingerprint() -> str:
    """Names this version of the runtime on this interpreter of this machine: eight hex digits.

    Machines may share a home; a daemon of another one is at an address that leads nowhere here. Clients whose
    `LD_LIBRARY_PATH` leads to other shared libraries have a daemon of their own.
    """
    digest = hashlib.sha256(f"{__version__} {sys.base_prefix} {sys.version} {socket.gethostname()}".encode())
    digest.update(os.fsencode(libraries.describe_own()))
    for path in sorted(_SOURCES.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:8]


class RuntimeDirectory:
    """The files of one version's daemon below a state directory.

    Args:
        state_dir: The user's state directory.

    Raises:
        RuntimeUnavailableError: If the directory cannot be made, or belongs to someone else.
    """

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.path = state_dir / "runtime" / f"{__version__}-{fingerprint()}"
        try:
            for directory in (state_dir, state_dir / "runtime", self.path):
                private_directory(directory)
        except SandrlError as error:
            raise RuntimeUnavailableError(
                f"cannot use {self.path} for the local runtime: {error.message}", hint=error.hint
            ) from error

    @property
    def log(self) -> Path:
        """The daemon's log file."""
        return self.path / _LOG

    @property
    def overlays(self) -> Path:
        """Where package overlays are kept."""
        return self.path / "overlays"

    @property
    def prebuilt(self) -> Path:
        """What every sandbox sees, read-only, at `limits.PREBUILT_PATH`; no overlay has this name."""
        return self.overlays / PREBUILT

    def make_shown(self) -> Path:
        """Makes the directories that sandboxes see; returns that of package overlays, which has the other."""
        for directory in (self.overlays, self.prebuilt):
            directory.mkdir(mode=0o755, exist_ok=True)
        return self.overlays

    def hold(self, name: str, *, wait: bool) -> int | None:
        """Take a lock; returns the descriptor that holds it, or None if another has it and `wait` is false."""
        descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def hold_start(self) -> int:
        """Wait for the right to start a daemon."""
        descriptor = self.hold(_START, wait=True)
        assert descriptor is not None
        return descriptor

    def hold_alive(self) -> int | None:
        """Become the daemon of this directory, or None if there is one."""
        return self.hold(_ALIVE, wait=False)

    def write(self, endpoint: DaemonEndpoint) -> None:
        """Publish a daemon: the token for its user alone, then the address."""
        self._replace(_TOKEN, endpoint.token)
        self._replace(_STATE, json.dumps({"schema": 1, "base_url": endpoint.base_url, "pid": endpoint.pid}))

    def write_roster(self, sandboxes: Sequence[tuple[str, list[str]]]) -> None:
        """Tell who completes command lines which sandboxes live: ids with their tags."""
        self._replace(_ROSTER, json.dumps({"schema": 1, "pid": os.getpid(), "sandboxes": sandboxes}))

    def _replace(self, name: str, text: str) -> None:
        temporary = self.path / f".{name}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(self.path / name)

    def clear(self) -> None:
        """Take a daemon's address back."""
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
            return DaemonEndpoint(str(state["base_url"]), token, int(state["pid"]), self.state_dir)
        except (OSError, ValueError, KeyError, TypeError):
            return None  # it lives but is still starting, or is already leaving

    def _has_daemon(self) -> bool:
        """Whether a daemon holds the lock of those that are alive."""
        probe = self.hold(_ALIVE, wait=False)
        if probe is None:
            return True
        os.close(probe)
        return False
