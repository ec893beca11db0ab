"""A store of layers: directories that sandboxes see read-only, named by a digest of their content.

A layer is made in a directory with a temporary name and renamed when it is complete, so no process ever sees a part of
one. The store keeps the request for which it made a layer apart from the content (`find`, `keep`): the same request may
lead to another content after the store was emptied, and a cache of verdicts must notice that.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sandrl.errors import SandrlError
from sandrl.files import read_entry, write_entry
from sandrl.runtime.images import locks
from sandrl.settings import private_directory

_MOST_BYTES = 16 << 20
_NAME = re.compile(r"[0-9a-f]{32}")
_UNUSED_SECONDS = 90 * 24 * 3600


class LayerStore:
    """The layers of a user."""

    def __init__(self, cache_dir: Path) -> None:
        self._cache_dir = cache_dir

    @property
    def _root(self) -> Path:
        return private_directory(
            private_directory(self._cache_dir, variable="SANDRL_CACHE_DIR") / "layers", variable="SANDRL_CACHE_DIR"
        )

    def path(self, name: str) -> Path:
        return self._root / name

    def find(self, request: str) -> dict[str, Any] | None:
        """What is kept about the layer that was made for a request; None unless there is such a layer."""
        try:
            found = read_entry(self._root / "requests", request, _MOST_BYTES)
            os.utime(self.path(str(found["layer"])))
        except (OSError, SandrlError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return dict(found)

    def keep(self, request: str, facts: dict[str, Any]) -> None:
        """Keeps which layer was made for a request (`layer`), and further plain facts about it."""
        directory = self._root / "requests"
        directory.mkdir(mode=0o700, exist_ok=True)
        write_entry(directory, request, facts)

    @contextmanager
    def locked(self, request: str) -> Iterator[None]:
        """Waits until no other process or thread makes the layer of a request."""
        directory = self._root / "locks"
        directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = locks.take(directory / request, exclusive=True)
        try:
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def building(self) -> Iterator[Path]:
        directory = self._root / f".new-{uuid.uuid4().hex}"
        directory.mkdir(mode=0o700)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def publish(self, directory: Path) -> str:
        """Makes a directory a layer; returns its name, 32 hexadecimal digits."""
        name = _readable(directory)
        remove_unused(self._root)
        try:
            directory.rename(self.path(name))
        except OSError:
            if not self.path(name).is_dir():  # else it is there, with the same content
                raise
        return name


def show(layer: Path, target: Path) -> None:
    """Makes the files of a layer visible in another directory, by hard links; by copies on another file system."""
    with suppress(FileNotFoundError):
        os.utime(target)
        return
    remove_unused(target.parent)
    building = target.parent / f".{target.name}-{uuid.uuid4().hex}"
    try:
        shutil.copytree(layer, building, symlinks=True, copy_function=_link)
        for directory, _, _ in os.walk(building):
            os.chmod(directory, 0o755)
        building.rename(target)
    except OSError:
        if not target.is_dir():  # else another process was faster, with the same content
            raise
    finally:
        shutil.rmtree(building, ignore_errors=True)


def remove_unused(directory: Path) -> None:
    for layer in directory.iterdir():
        with suppress(OSError):
            if _NAME.fullmatch(layer.name) and layer.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                # Nobody sees a part of one.
                layer.rename(removed := directory / f".old-{uuid.uuid4().hex}")
                shutil.rmtree(removed, ignore_errors=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _readable(root: Path) -> str:
    digest = hashlib.sha256()
    for directory, names, files in os.walk(root):
        os.chmod(directory, 0o755)
        names.sort()
        for name in sorted([*files, *(each for each in names if Path(directory, each).is_symlink())]):
            path = Path(directory, name)
            status = path.lstat()
            digest.update(f"{path.relative_to(root)}\0{status.st_mode & 0o111:o}\0".encode("utf-8", "surrogateescape"))
            if stat.S_ISLNK(status.st_mode):
                digest.update(os.fsencode(path.readlink()))
                continue
            os.chmod(path, 0o755 if status.st_mode & 0o111 else 0o644)
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256")
            digest.update(content.digest())
    return digest.hexdigest()[:32]
