"""The index of a user's runs, across all directories that they were started in.

It has one symbolic link per run. Creating a link is one atomic step: two jobs that start at once do not affect each
other, and `kill -9` leaves a whole entry or none, never half a line. The names alone are enough for shell completion;
an entry of a deleted run points nowhere and is ignored.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sandrl.errors import InputError, SandrlError, UsageError
from sandrl.prefixes import find_id
from sandrl.runs.config import CONFIG_FILE, read_config
from sandrl.runs.directory import lock
from sandrl.settings import private_directory

LATEST = "latest"
"""Finds the run that was started or resumed last."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run that can be found.

    Attributes:
        started_at: When it was started or resumed last, UTC.
    """

    run_id: str
    path: Path
    started_at: datetime


def register_run(directory: Path, state_dir: Path) -> None:
    """Enters a run into the user's index, or renews its entry; without a usable state directory it has none."""
    directory = directory.absolute()
    with suppress(OSError, SandrlError):
        folder = private_directory(state_dir) / "runs"
        folder.mkdir(exist_ok=True)
        temporary = folder / f".{os.urandom(8).hex()}"
        temporary.symlink_to(directory)
        temporary.replace(folder / _entry_name(directory))


def remove_run(path: Path, state_dir: Path) -> None:
    """Removes a run directory and its entry in the index, under the lock of its writer.

    Raises:
        InputError: If it is no run directory.
        UsageError: If a job is writing it, or it cannot be removed.
    """
    real = Path(os.path.realpath(path))
    read_config(real)
    try:
        descriptor = lock(real)
    except UsageError as error:
        raise UsageError(error.message, hint="end its job first") from error
    try:
        shutil.rmtree(real)
    except OSError as error:
        raise UsageError(f"{error.filename or real}: cannot be removed: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if path.is_symlink():
        path.unlink(missing_ok=True)
    with suppress(OSError):
        (state_dir / "runs" / _entry_name(path.absolute())).unlink(missing_ok=True)


def list_runs(state_dir: Path, runs_dir: Path | None = None) -> list[RunEntry]:
    """Lists the runs in the index, and those below a directory that are not in it.

    Returns:
        Newest first; entries whose run is gone are left out.
    """
    entries: dict[Path, RunEntry] = {}
    for entry in (*_indexed(state_dir / "runs"), *_found(runs_dir)):
        key = Path(os.path.realpath(entry.path))
        if key not in entries and (key / CONFIG_FILE).is_file():
            entries[key] = entry
    return sorted(entries.values(), key=lambda entry: (entry.started_at, entry.run_id), reverse=True)


def find_run(name: str, state_dir: Path, runs_dir: Path | None = None) -> Path:
    """Finds a run's directory by its name, its path, the id of a job that worked on it, or `latest`.

    Of a name or an id, the beginning is enough if nothing else begins like that. `runs_dir` is searched, too, and
    preferred when a name is taken twice.

    Raises:
        InputError: If there is no such run, several begin like that, or several have that name and none of them is in
            `runs_dir`.
    """
    if os.sep in name or name in (".", ".."):
        path = Path(name)
        if (path / CONFIG_FILE).is_file():
            return path.absolute()
        raise InputError(f"is not a run directory: it has no {CONFIG_FILE}", path=name)
    runs = list_runs(state_dir, runs_dir)
    if not runs:
        which = "" if name == LATEST else f"no run is called {name!r}: "
        raise InputError(f"{which}there are no runs yet", hint="create one, for example with sandrl reward")
    if name == LATEST:
        return runs[0].path
    named = [run for run in runs if run.run_id == name]
    if not named:
        jobs = {run.path: _jobs_of(run.path) for run in runs}
        job = find_id(name, (job for each in jobs.values() for job in each), noun="job", optional="job-")
        run_id = find_id(name, (run.run_id for run in runs), noun="run")
        if job is not None and run_id is not None:
            raise InputError(
                f"{name!r} is the beginning of the run {run_id} and of the job {job}",
                hint="give more characters of the name or the id",
            )
        named = [run for run in runs if run.run_id == run_id or job in jobs[run.path]]
    if not named:
        close = difflib.get_close_matches(name, [LATEST, *(run.run_id for run in runs)], n=1, cutoff=0.5)
        suggestion = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(f"there is no run {name!r}{suggestion}", hint="list the runs: sandrl runs ls")
    near = [run for run in named if runs_dir is not None and run.path.parent == runs_dir.absolute()]
    if len(named) > 1 and len(near) != 1:
        places = ", ".join(str(run.path) for run in named)
        raise InputError(f"several runs are named {name!r}: {places}", hint="give the path of one of them")
    return (near or named)[0].path


def _entry_name(directory: Path) -> str:
    return f"{directory.name}@{hashlib.sha256(os.fsencode(directory)).hexdigest()[:8]}"


def _jobs_of(path: Path) -> tuple[str, ...]:
    try:
        return tuple(job.job_id for job in read_config(path).jobs)
    except InputError:
        return ()


def _indexed(folder: Path) -> Iterator[RunEntry]:
    try:
        links = list(os.scandir(folder))
    except OSError:
        return
    for link in links:
        run_id, separator, _ = link.name.rpartition("@")
        if separator and not link.name.startswith("."):
            try:
                target = Path(os.readlink(link.path))
                seconds = link.stat(follow_symlinks=False).st_mtime
            except OSError:
                continue
            yield RunEntry(run_id, target, datetime.fromtimestamp(seconds, UTC))


def _found(runs_dir: Path | None) -> Iterator[RunEntry]:
    try:
        directories = [] if runs_dir is None else list(os.scandir(runs_dir.absolute()))
    except OSError:
        return
    for directory in directories:
        config = Path(directory.path, CONFIG_FILE)
        try:
            seconds = config.stat().st_mtime
        except OSError:
            continue
        yield RunEntry(directory.name, Path(directory.path), datetime.fromtimestamp(seconds, UTC))
