"""The files of an image as its programs see them, read from the directories of its layers without a mount.

No path leads out: each is walked from the directory of a layer, one component at a time, and links are resolved here.
A context of a build is read in the same way, as the only layer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sandrl.errors import InputError
from sandrl.runtime.images.tree import OPAQUE

Parts = tuple[str, ...]
"""The components of a path; names of any bytes, as `os.fsdecode` has them."""

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_MOST_DEPTH = 400


class MergedTree:
    """The files of layers.

    Args:
        layers: Their directories, the lowest first.
        described: Names them in messages.
        keeps_owners: Whether files have the owners that they have on the disk; else all belong to user 0.
    """

    def __init__(self, layers: Sequence[Path], described: str, *, keeps_owners: bool) -> None:
        self._layers = tuple(reversed(layers))
        self.described = described
        self.keeps_owners = keeps_owners

    def find(self, path: Parts) -> os.stat_result | None:
        """The status of a file, links not followed; None if there is none."""
        for layer in self._layers:
            with _walked(layer, path) as (descriptor, is_hidden):
                if descriptor is not None:
                    found = os.fstat(descriptor)
                    return None if _is_whiteout(found) else found
                if is_hidden:
                    return None
        return None

    def is_directory(self, path: Parts) -> bool:
        found = self.find(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def resolve(self, path: Parts, *, follow_last: bool = True) -> Parts:
        """The same place without links and `..`; what does not exist is taken as it is.

        Raises:
            InputError: If there are too many links.
        """
        done: list[str] = []
        pending = list(reversed(path))
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                continue
            found = self.find((*done, part))
            if found is None or not stat.S_ISLNK(found.st_mode) or not (pending or follow_last):
                done.append(part)
            else:
                links += 1
                target = self.link((*done, part))
                if target.startswith("/"):
                    done.clear()
                pending += reversed(target.split("/"))
            if links > _MOST_LINKS or len(done) + len(pending) > _MOST_DEPTH:
                raise InputError(f"{'/'.join(path)[:200]!r} has too many links or is too deep", path=self.described)
        return tuple(done)

    def link(self, path: Parts) -> str:
        """The target of a link."""
        with self._found(path) as descriptor:
            return os.readlink("", dir_fd=descriptor)

    def names(self, path: Parts) -> list[str]:
        """The names in a directory, in their order."""
        found: set[str] = set()
        hidden: set[str] = set()
        for layer in self._layers:
            with _walked(layer, path) as (descriptor, is_hidden):
                if descriptor is not None:
                    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                        break
                    with self._permitted(path), os.scandir(f"/proc/self/fd/{descriptor}") as entries:
                        for each in entries:
                            kept = hidden if _is_whiteout(each.stat(follow_symlinks=False)) else found
                            if each.name not in hidden:
                                kept.add(each.name)
                    is_hidden = is_hidden or _is_opaque(descriptor)
                if is_hidden:
                    break
        return sorted(found)

    @contextmanager
    def open(self, path: Parts) -> Iterator[int]:
        """A descriptor of a regular file, to read it.

        Raises:
            InputError: If it cannot be read.
        """
        with self._found(path) as descriptor, self._permitted(path):
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(
                    f"{'/'.join(path)[:200]} has changed to something other than a file", path=self.described
                )
            opened = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            yield opened
        finally:
            os.close(opened)

    def attributes(self, path: Parts) -> dict[str, bytes]:
        """The extended attributes of a file that belong in a layer."""
        found = {}
        with self._found(path) as descriptor, suppress(OSError):
            place = f"/proc/self/fd/{descriptor}"
            for name in os.listxattr(place):
                if name == "security.capability" or (name.startswith("user.") and not name.startswith("user.overlay.")):
                    found[name] = os.getxattr(place, name)
        return found

    def read(self, path: Parts, most_bytes: int) -> bytes:
        """The beginning of a file, with links followed; nothing if it is no regular file."""
        path = self.resolve(path)
        found = self.find(path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return b""
        with self.open(path) as descriptor:
            return os.read(descriptor, most_bytes)

    @contextmanager
    def _found(self, path: Parts) -> Iterator[int]:
        for layer in self._layers:
            with _walked(layer, path) as (descriptor, is_hidden):
                if descriptor is not None:
                    yield descriptor
                    return
                if is_hidden:
                    break
        raise InputError(f"has no {'/'.join(path)[:200]!r} any more", path=self.described)

    @contextmanager
    def _permitted(self, path: Parts) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"{'/'.join(path)[:200] or '.'} cannot be read: {error.strerror}"
            raise InputError(message, path=self.described, hint="check its permissions") from error


@contextmanager
def _walked(layer: Path, path: Parts) -> Iterator[tuple[int | None, bool]]:
    # A descriptor, or None, and whether this layer hides what is below it there.
    descriptor = os.open(layer, _PATH | os.O_DIRECTORY)
    is_opaque = False
    try:
        for place, part in enumerate(path):
            try:
                following = os.open(part, _PATH, dir_fd=descriptor)
            except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
                yield None, is_opaque or not stat.S_ISDIR(os.fstat(descriptor).st_mode)
                return
            os.close(descriptor)
            descriptor = following
            # What is below the directory itself matters to those who list it.
            is_opaque = is_opaque or (place < len(path) - 1 and _is_opaque(descriptor))
        yield descriptor, is_opaque
    finally:
        os.close(descriptor)


def _is_whiteout(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def _is_opaque(descriptor: int) -> bool:
    try:
        return os.getxattr(f"/proc/self/fd/{descriptor}", OPAQUE) == b"y"
    except OSError:
        return False
