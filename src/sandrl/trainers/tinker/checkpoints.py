"""Checkpoints on disk, under the names that the service gives them.

`tinker://RUN/weights/NAME` and `tinker://RUN/sampler_weights/NAME` are directories `RUN/weights/NAME` and so on. Such a
directory is created by one rename and never changed. A service that is killed while it saves leaves no partial
checkpoint, and a service that is started later on the same directory has all of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from pydantic import BaseModel

from sandrl.files import write_whole
from sandrl.trainers.tinker.options import AdapterConfig, NameTakenError, NotFoundError, RequestError

SCHEME = "tinker://"
KINDS = {"training": "weights", "sampler": "sampler_weights"}
_CONTENT, _ABOUT = "content.pt", "about.json"
_SAVING, _SAMPLERS, _LOCK = ".saving-", ".samplers", ".lock"
# A service whose training was killed ends within seconds.
_LOCK_SECONDS = 15.0
_LOOK_SECONDS = 0.1
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._:-]+")


class About(BaseModel):
    base_model: str
    config: AdapterConfig
    time: datetime
    size_bytes: int


class Checkpoints:
    """All checkpoints of all training runs, in a directory that is cleared of a killed service's leftovers.

    `keep` is how many of each kind a training run keeps, the latest; None for all.

    Raises:
        OSError: If the directory cannot be made, or another service has it.
    """

    def __init__(self, directory: Path, keep: int | None = None) -> None:
        self._directory = directory
        self._keep = keep
        self._reserved: set[str] = set()
        self._samplers = directory / _SAMPLERS
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(directory / _LOCK)
        for leftover in (self._samplers, *directory.glob(f"{_SAVING}*")):
            shutil.rmtree(leftover, ignore_errors=True)

    def reserve(self, run: str, kind: str, name: str, *, replaces: bool = False) -> str:
        """Makes sure of a name before its checkpoint is saved, and returns the path of the checkpoint to be.

        With `replaces`, a checkpoint of this name is replaced when the new one is saved.

        Raises:
            RequestError: If the name cannot be used.
            NameTakenError: If it is in use.
        """
        if not _NAME.fullmatch(name):
            raise RequestError(f"not a valid name of a checkpoint: {name!r}")
        path = f"tinker://{run}/{KINDS[kind]}/{name}"
        if path in self._reserved or (self._place(path).exists() and not replaces):
            raise NameTakenError(f"{path} already exists")
        self._reserved.add(path)
        return path

    @contextmanager
    def reserved(self, path: str) -> Iterator[None]:
        """Gives a name back at the end of a `with` block: by then its checkpoint is there, or will not be."""
        try:
            yield
        finally:
            self._reserved.discard(path)

    def save(self, path: str, content: bytes, base_model: str, config: AdapterConfig) -> None:
        place = self._place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        about = About(base_model=base_model, config=config, time=datetime.now(UTC), size_bytes=len(content))
        with tempfile.TemporaryDirectory(prefix=_SAVING, dir=self._directory) as temporary:
            made = Path(temporary, "made")
            made.mkdir()
            write_whole(made / _CONTENT, content, mode=0o666, durable=True)
            write_whole(made / _ABOUT, about.model_dump_json().encode(), mode=0o666, durable=True)
            if place.exists():
                place.rename(Path(temporary, "replaced"))
            made.rename(place)
        if self._keep is not None:
            self._prune(place.parent, self._keep)

    def read(self, path: str) -> bytes:
        """The content of a checkpoint.

        Raises:
            NotFoundError: If there is none.
        """
        self.about(path)
        return (self._place(path) / _CONTENT).read_bytes()

    def about(self, path: str) -> About:
        """What is known of a checkpoint without loading it.

        Raises:
            NotFoundError: If there is none.
        """
        about = read_about(self._place(path))
        if about is None:
            raise NotFoundError(f"there is no checkpoint {path}")
        return about

    def of_run(self, run: str) -> list[tuple[str, str, About]]:
        """A run's checkpoints, oldest first: the kind, the path and what is known of each."""
        found = []
        for kind, folder in KINDS.items():
            for place in (self._directory / run / folder).glob(f"*/{_ABOUT}") if _NAME.fullmatch(run) else ():
                path = f"tinker://{run}/{folder}/{place.parent.name}"
                found.append((kind, path, self.about(path)))
        return sorted(found, key=lambda each: each[2].time)

    def delete(self, path: str) -> None:
        self.about(path)
        self._remove(self._place(path))

    def save_sampler(self, sampler_id: str, content: bytes) -> None:
        """Saves the weights of a sampler without a name, which last as long as the service at most."""
        self._samplers.mkdir(exist_ok=True)
        (self._samplers / _hashed(sampler_id)).write_bytes(content)

    def read_sampler(self, sampler_id: str) -> bytes:
        """The weights of such a sampler.

        Raises:
            NotFoundError: If they are gone.
        """
        try:
            return (self._samplers / _hashed(sampler_id)).read_bytes()
        except FileNotFoundError as error:
            raise NotFoundError(
                f"the weights of the sampler {sampler_id} were deleted: newer samplers replaced them"
            ) from error

    def delete_sampler(self, sampler_id: str) -> None:
        (self._samplers / _hashed(sampler_id)).unlink(missing_ok=True)

    def _prune(self, folder: Path, keep: int) -> None:
        found = sorted(folder.glob(f"*/{_ABOUT}"), key=lambda each: each.stat().st_mtime_ns)
        for about in found[:-keep]:
            self._remove(about.parent)

    def _remove(self, place: Path) -> None:
        # Gone in one step, as it came.
        with tempfile.TemporaryDirectory(prefix=_SAVING, dir=self._directory) as temporary:
            place.rename(Path(temporary, "removed"))

    def _place(self, path: str) -> Path:
        return checkpoint_place(self._directory, path)


def checkpoint_place(directory: Path, path: str) -> Path:
    """The directory of the checkpoint with a path, in a directory of checkpoints; it need not exist.

    Raises:
        NotFoundError: If it is not such a path.
    """
    run, _, name = path.removeprefix(SCHEME).partition("/")
    kind, _, name = name.partition("/")
    is_path = path.startswith(SCHEME) and kind in KINDS.values() and _NAME.fullmatch(run) and _NAME.fullmatch(name)
    if not is_path:
        raise NotFoundError(f"there is no checkpoint {path}: not a path like {SCHEME}RUN/weights/NAME")
    return directory / run / kind / name


def read_about(place: Path) -> About | None:
    """What is known of the checkpoint in a directory; None if there is none."""
    try:
        return About.model_validate_json((place / _ABOUT).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_checkpoint(place: Path) -> tuple[About, bytes]:
    """What is known of a checkpoint in a directory, and its content."""
    return About.model_validate_json((place / _ABOUT).read_bytes()), (place / _CONTENT).read_bytes()


def _locked(path: Path) -> IO[bytes]:
    file = path.open("wb")
    ends_at = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if time.monotonic() > ends_at:
                file.close()
                raise
            time.sleep(_LOOK_SECONDS)


def _hashed(sampler_id: str) -> str:
    return hashlib.sha256(sampler_id.encode()).hexdigest()
