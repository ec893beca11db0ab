"""Names, creates and locks run directories.

The writer of a run holds a lock on its directory until it ends. The kernel releases the lock of every process that
ends, so the check whether a run is being written never depends on a process id, which may belong to another process by
now.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from sandrl.errors import UsageError
from sandrl.runs.config import CONFIG_FILE
from sandrl.runs.rows import now

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_RESERVED = frozenset({"latest"})


def new_run_id(command: str) -> str:
    """Returns a fresh run id such as `reward-20261121-093000-ab12`: sorts by time (UTC) within a command."""
    return f"{command.replace(' ', '-')}-{now():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def checked_run_name(name: str) -> str:
    """Returns a name the user gave.

    Raises:
        UsageError: If it cannot name a directory everywhere, or means something else.
    """
    if name in _RESERVED or not _NAME.fullmatch(name):
        raise UsageError(
            f"run_name {name!r} is not a valid name of a run",
            hint="use up to 100 letters, digits, '.', '_' and '-', a letter or digit first; `latest` is reserved",
            fields=("run_name",),
        )
    return name


def make_run_directory(runs_dir: Path, command: str, name: str | None, *, resume: bool) -> Path:
    """Makes the directory of a run, for its user alone, or finds the one to resume; without a name, it generates one.

    Raises:
        UsageError: If the name is taken and `resume` is false, there is nothing to resume, or nothing can be written.
    """
    if resume:
        if name is None:
            raise UsageError("resume requires run_name, the name of the run to resume", fields=("resume", "run_name"))
        path = runs_dir / name
        if not (path / CONFIG_FILE).is_file():
            raise UsageError(f"there is no run {name!r} in {runs_dir} to resume", hint="list the runs: sandrl runs ls")
        return path
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        while True:
            path = runs_dir / (checked_run_name(name) if name else new_run_id(command))
            try:
                path.mkdir(mode=0o700)
            except FileExistsError as error:
                if name:
                    message = f"the run {name!r} already exists in {runs_dir}"
                    hint = "choose another `run_name`"
                    raise UsageError(message, hint=hint, fields=("run_name",)) from error
            else:
                return path
    except OSError as error:
        message = f"{runs_dir}: runs cannot be saved in this directory: {error.strerror}"
        hint = "choose a writable directory with `runs_dir`"
        raise UsageError(message, hint=hint, fields=("runs_dir",)) from error


def lock(directory: Path) -> int:
    """Locks a run for writing; returns the descriptor whose closing unlocks it.

    Raises:
        UsageError: If another process is writing the run.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise UsageError(f"the run {directory.name!r} is being written by another process") from error
    except OSError:
        # Some network file systems have no locks; a run without one is better than none.
        pass
    return descriptor


def is_running(directory: Path) -> bool:
    """Tells whether some process is writing the run now."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False
