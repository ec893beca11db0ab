"""Unpacks the archive of one layer into a new directory, within limits, and computes its digest on the way."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from sandrl.errors import ServiceError
from sandrl.runtime.images.archive import Archive, ArchiveError
from sandrl.runtime.images.compression import Plain
from sandrl.runtime.images.tree import Tree

_CHUNK = 1 << 20
_CHECK_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one layer may need; a layer beyond it is refused.

    Attributes:
        most_bytes: Bytes of the plain archive, and of each file with its holes.
        most_entries: Files, directories and links.
        free_bytes: What must stay free on the file system.
        free_files: As many files another program must still be able to make there.
    """

    most_bytes: int = 64 << 30
    most_entries: int = 1_000_000
    free_bytes: int = 256 << 20
    free_files: int = 1_000


class NoSpaceError(Exception):
    """The file system of the store has no room for a layer."""


def unwritable(directory: Path, error: Exception) -> ServiceError:
    """The error of a store, or a temporary directory, that cannot be written."""
    reason = error.strerror if isinstance(error, OSError) else error
    is_full = not isinstance(error, OSError) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "remove unused images: sandrl images prune, or set SANDRL_CACHE_DIR to a directory with more room"
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        hint = "set SANDRL_CACHE_DIR to a directory that can be written"
    elif not is_full:
        hint = "set SANDRL_CACHE_DIR to a directory of a local file system with extended attributes, such as ext4"
    return ServiceError(f"the store of images cannot be written ({directory}): {reason}", hint=hint)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What an archive was found to be: the digest of its plain content (`sha256:…`), and the bytes of its files."""

    diff_id: str
    stored_bytes: int


class Measured:
    """The plain content of an archive, counted and hashed."""

    def __init__(self, file: IO[bytes], most_bytes: int) -> None:
        self._plain = Plain(file)
        self._digest = hashlib.sha256()
        self._most_bytes = most_bytes
        self.size = 0

    def read(self, size: int) -> bytes:
        """Reads up to so many bytes.

        Raises:
            ArchiveError: If there are more than allowed.
            CompressionError: If the content is damaged.
        """
        chunk = self._plain.read(size)
        self._digest.update(chunk)
        self.size += len(chunk)
        if self.size > self._most_bytes:
            raise ArchiveError(f"is larger than {self._most_bytes >> 30} GiB when it is unpacked")
        return chunk

    def finish(self) -> str:
        """Reads what is left, and returns the digest of all, `sha256:…`."""
        while self.read(_CHUNK):
            pass
        return f"sha256:{self._digest.hexdigest()}"


def unpack(
    file: IO[bytes],
    target: Path,
    *,
    keeps_owners: bool,
    below: Sequence[Path] = (),
    limits: Limits | None = None,
    tell: Callable[[], None] = lambda: None,
) -> Unpacked:
    """Unpacks an archive, compressed or not, into a directory that is empty.

    `below` are the directories of the layers below, as `Tree` takes them.
    `tell` is called now and then, for a caller that shows how far the file was read.

    Raises:
        ArchiveError: If the archive is damaged, leaves the directory, or is beyond a limit.
        CompressionError: If its compressed content is damaged.
        NoSpaceError: If the file system has no room.
        OSError: If the directory cannot be written.
    """
    limits = limits or Limits()
    stream = Measured(file, limits.most_bytes)
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        tree = Tree(root, keeps_owners=keeps_owners, below=below)
        try:
            _write_all(Archive(stream), tree, root, limits, tell)
        finally:
            tree.close()
        return Unpacked(stream.finish(), tree.stored_bytes)
    finally:
        os.close(root)


def _write_all(archive: Archive, tree: Tree, root: int, limits: Limits, tell: Callable[[], None]) -> None:
    checked = -_CHECK_BYTES
    for count, entry in enumerate(archive):
        if count >= limits.most_entries:
            raise ArchiveError(f"has more than {limits.most_entries} entries")
        if entry.size > limits.most_bytes:
            raise ArchiveError(f"has a file of more than {limits.most_bytes >> 30} GiB")
        if count % 1_000 == 0 or archive.position + entry.stored > checked + _CHECK_BYTES:
            check_room(root, limits, entry.stored)
            checked = archive.position + entry.stored
            tell()
        tree.add(entry, archive.content())
    tree.finish()


def check_room(descriptor: int, limits: Limits, needed: int) -> None:
    """Checks that so many bytes can be written to the file system of an open file.

    Raises:
        NoSpaceError: If too little would stay free.
    """
    found = os.fstatvfs(descriptor)
    if found.f_bavail * found.f_frsize < limits.free_bytes + needed:
        raise NoSpaceError(f"less than {limits.free_bytes + needed >> 20} MiB are free")
    # Some file systems count no files.
    if found.f_files and found.f_favail < limits.free_files:
        raise NoSpaceError(f"less than {limits.free_files} files can be made")
