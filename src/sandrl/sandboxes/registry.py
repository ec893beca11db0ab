"""The registry of jobs: which process owns which sandboxes, for a cleanup after a job that was killed.

A job has one small file in the user's state directory, forced to the disk before the job's first sandbox is requested,
and deleted when the last one has ended. So the files name jobs that run, or that were killed. Files are only ever
replaced whole and never shared, so that jobs cannot disturb each other; the tag `owner-<hash>` of a sandbox leads to
the file, and the file to a process that can be looked for.

A job with a run directory also writes a line per sandbox into its ledger. A job without one needs no ledger: its
sandboxes carry its tags, and the tags are in the file.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from pydantic import Field, ValidationError

from sandrl.addresses import without_credentials
from sandrl.errors import SandrlError
from sandrl.events import Emit, Warned, ignore
from sandrl.files import read_regular, write_whole
from sandrl.runs.rows import OwnerRow, Stored, Text, now
from sandrl.sandboxes.owner import Liveness, Owner, liveness
from sandrl.settings import private_directory

_FOLDER = "jobs"
_SUFFIX = ".json"
# Far more than a file of ours ever has.
_MAX_FILE_BYTES = 256 * 1024
_TOUCH_SECONDS = 60.0
_SETTLED_SECONDS = 300.0
_HOUR_SECONDS = 3_600.0
_WEEK_SECONDS = 7 * 24 * _HOUR_SECONDS


class JobEntry(Stored):
    """One job that owns sandboxes, or owned them when it was killed.

    Attributes:
        tags: The tags of all its sandboxes, as they are sent.
        max_lifetime_seconds: After this the service ends a sandbox, whatever happened to the job.
    """

    job_id: str
    owner: OwnerRow
    owner_hash: str
    command: Text
    runtime: str
    address: Text
    tags: tuple[Text, ...] = ()
    run_dir: Text | None = None
    started_at: datetime = Field(default_factory=now)
    max_lifetime_seconds: float

    @property
    def process(self) -> Owner:
        return Owner(**self.owner.model_dump())


class Registration:
    """A job's own entry in the registry; without a usable state directory it warns once, and the job continues.

    Args:
        state_dir: The user's state directory; None keeps the job out of the registry.
    """

    def __init__(self, entry: JobEntry, state_dir: Path | None, emit: Emit = ignore) -> None:
        self._entry = entry
        self._state_dir = state_dir
        self._emit = emit
        # Ranks of a distributed job share its id, so the id alone would not do as a name.
        self._name = f"{entry.job_id}@{secrets.token_hex(4)}{_SUFFIX}"
        self._written_at: float | None = None
        self._is_impossible = state_dir is None

    def renew(self) -> None:
        """Makes sure that the entry is on disk, and that its time shows when a sandbox was last requested."""
        if self._is_impossible or self._state_dir is None:
            return
        if self._written_at is not None and time.monotonic() - self._written_at < _TOUCH_SECONDS:
            return
        try:
            if self._written_at is None:
                _prune(self._state_dir)
            folder = private_directory(private_directory(self._state_dir) / _FOLDER)
            write_whole(folder / self._name, self._entry.to_json() + b"\n", mode=0o600, durable=True)
        except (OSError, SandrlError) as error:
            self._is_impossible = True
            reason = error.message if isinstance(error, SandrlError) else f"{self._state_dir}: {error.strerror}"
            hint = f"if the job is killed, stop its sandboxes with: sandrl sandboxes cleanup --tag {self._entry.job_id}"
            self._emit(Warned(f"the job cannot be entered into the registry of jobs: {reason}", hint=hint))
        else:
            self._written_at = time.monotonic()

    def move(self, address: str) -> None:
        self._entry = self._entry.model_copy(update={"address": without_credentials(address)})
        self._written_at = None

    def end(self) -> None:
        if self._state_dir is not None:
            try:
                (self._state_dir / _FOLDER / self._name).unlink(missing_ok=True)
            except OSError:
                # Whoever reads it will find the job gone, and the entry is pruned in the end.
                return
            self._written_at = None


def read_jobs(state_dir: Path) -> tuple[JobEntry, ...]:
    """All jobs in the registry, newest first; damaged and foreign files are skipped."""
    entries = [entry for _, entry in _entries(state_dir)]
    return tuple(sorted(entries, key=lambda entry: (entry.started_at, entry.job_id), reverse=True))


def find_owner(state_dir: Path, owner_hash: str) -> Owner | None:
    """The process behind the tag `owner-<hash>`, or None if it is not in the registry."""
    return next((entry.process for entry in read_jobs(state_dir) if entry.owner_hash == owner_hash), None)


def _entries(state_dir: Path) -> Iterator[tuple[os.DirEntry[str], JobEntry]]:
    try:
        with os.scandir(state_dir / _FOLDER) as found:
            files = [file for file in found if file.name.endswith(_SUFFIX) and not file.name.startswith(".")]
    except OSError:
        return
    for file in files:
        try:
            entry = JobEntry.model_validate_json(read_regular(file.path, _MAX_FILE_BYTES, follow=False))
        except (OSError, ValidationError):
            continue
        if entry.process.hash == entry.owner_hash:
            yield file, entry


def _prune(state_dir: Path) -> None:
    # The hour is for clocks that differ. Of a job on another host, only the time of its last request is known; if it is
    # alive and requests another sandbox, it writes its entry again.
    for file, entry in _entries(state_dir):
        found = liveness(entry.process)
        grace = _HOUR_SECONDS if found is Liveness.GONE else _WEEK_SECONDS
        try:
            idle_seconds = time.time() - file.stat().st_mtime
            if found is not Liveness.ALIVE and idle_seconds > entry.max_lifetime_seconds + grace:
                Path(file.path).unlink(missing_ok=True)
        except OSError:
            continue


def forget_jobs(state_dir: Path, addresses: Collection[str], tags_in_use: Collection[str]) -> None:
    """Removes the entries of jobs that have ended and have no sandbox left, nor one that is being created.

    A service may still create a sandbox that a job requested just before its end, after a listing that did not show
    it. So an entry stays for some minutes: without it, the owner of that sandbox would be unknown.

    Args:
        addresses: The runtimes whose sandboxes were just listed; jobs at other addresses are not changed.
    """
    listed = {without_credentials(address) for address in addresses}
    for file, entry in _entries(state_dir):
        is_there = entry.address in listed
        if is_there and f"owner-{entry.owner_hash}" not in tags_in_use and liveness(entry.process) is Liveness.GONE:
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > _SETTLED_SECONDS:
                    Path(file.path).unlink(missing_ok=True)
