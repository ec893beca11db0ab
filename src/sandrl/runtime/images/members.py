"""The files of an image's directory or archive, by name, with the digests of those in an archive."""

from __future__ import annotations

import hashlib
import os
import posixpath
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Protocol

from sandrl.errors import InputError
from sandrl.files import open_regular, read_regular
from sandrl.runtime.images.archive import Archive, ArchiveError
from sandrl.runtime.images.compression import CompressionError, Plain
from sandrl.runtime.images.unpack import Limits, Measured, NoSpaceError, check_room, unwritable

_CHUNK = 1 << 20
_CHECK_BYTES = 64 << 20
_HEAD_BYTES = 8
_MOST_MEMBERS = 100_000
_MOST_LINKS = 8
_NEEDED = "an OCI layout, an archive of docker save, or a tar archive of a root file system is needed"


class Members(Protocol):
    """Files by name."""

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""

    def read(self, name: str, most_bytes: int) -> bytes:
        """The content of a small file.

        Raises:
            InputError: If there is none, or it is larger.
        """

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        """The content of a file from a byte on.

        Raises:
            InputError: If there is none.
        """


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=error.filename or path) from error
    except (ArchiveError, CompressionError) as error:
        raise InputError(str(error), path=path, hint=_NEEDED) from error


@contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """Opens a regular file.

    Raises:
        InputError: If it cannot be read, or what the block reads from it is damaged.
    """
    with _readable(path), os.fdopen(open_regular(path), "rb") as file:
        yield file


class DirectoryMembers:
    """The files of a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, name: str) -> bool:
        return (self._root / name).is_file()

    def read(self, name: str, most_bytes: int) -> bytes:
        with _readable(self._root):
            return read_regular(self._root / name, most_bytes)

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        with open_file(self._root / name) as file:
            file.seek(offset)
            yield from iter(lambda: file.read(_CHUNK), b"")


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive: where its content is, its digest (`sha256:…`) and its first bytes."""

    offset: int
    size: int
    digest: str
    head: bytes


class ArchiveMembers:
    """The files of a tar archive, which is read once to find them.

    Args:
        scratch: Where a compressed archive is unpacked, to a file without a name; the usual directory if None.

    Raises:
        InputError: If it cannot be read.
    """

    def __init__(self, path: Path, scratch: Path | None) -> None:
        self._path = path
        with open_file(path) as file:
            self._file = _plain(file, scratch)
            try:
                self.members, self._links = _scan(self._file)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Closes the archive."""
        self._file.close()

    def has(self, name: str) -> bool:
        return self._resolved(name) in self.members

    def find(self, name: str) -> Member:
        """A file.

        Raises:
            InputError: If there is none.
        """
        found = self.members.get(self._resolved(name))
        if found is None:
            raise InputError(f"is not complete: it has no {name[:100]!r}", path=self._path)
        return found

    def read(self, name: str, most_bytes: int) -> bytes:
        found = self.find(name)
        if found.size > most_bytes:
            raise InputError(f"its {name[:100]!r} is larger than {most_bytes} bytes", path=self._path)
        return b"".join(self.pieces(name, 0))

    def pieces(self, name: str, offset: int) -> Iterator[bytes]:
        found = self.find(name)
        place, left = found.offset + offset, found.size - offset
        while left > 0 and (chunk := os.pread(self._file.fileno(), min(left, _CHUNK), place)):
            place, left = place + len(chunk), left - len(chunk)
            yield chunk

    def _resolved(self, name: str) -> str:
        # `docker save` writes a layer that occurs twice as a link.
        for _ in range(_MOST_LINKS):
            if name not in self._links:
                break
            name = posixpath.normpath(posixpath.join(posixpath.dirname(name), self._links[name]))
        return name


def _plain(file: BufferedReader, scratch: Path | None) -> IO[bytes]:
    if not Plain(file).is_compressed:
        return os.fdopen(os.dup(file.fileno()), "rb")
    unpacked = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 - it lives as long as its members
    try:
        _expand(Measured(file, Limits().most_bytes), unpacked)
    except (NoSpaceError, OSError) as error:
        unpacked.close()
        raise unwritable(scratch or Path(tempfile.gettempdir()), error) from error
    except BaseException:
        unpacked.close()
        raise
    return unpacked


def _expand(plain: Measured, target: IO[bytes]) -> None:
    while chunk := plain.read(_CHUNK):
        if (plain.size - len(chunk)) % _CHECK_BYTES < len(chunk):
            check_room(target.fileno(), Limits(), _CHECK_BYTES)
        target.write(chunk)
    target.flush()


def _scan(file: IO[bytes]) -> tuple[dict[str, Member], dict[str, str]]:
    members: dict[str, Member] = {}
    links: dict[str, str] = {}
    file.seek(0)
    for entry in (archive := Archive(file)):
        name = posixpath.normpath(entry.name.decode("utf-8", "replace"))
        if entry.kind == tarfile.SYMTYPE:
            links[name] = entry.link.decode("utf-8", "replace")
        elif entry.kind == tarfile.REGTYPE:
            members[name] = _member(archive, archive.position, entry.size)
        if len(members) + len(links) > _MOST_MEMBERS:
            raise ArchiveError(f"it has more than {_MOST_MEMBERS} files")
    return members, links


def _member(archive: Archive, offset: int, size: int) -> Member:
    digest, head = hashlib.sha256(), b""
    for chunk in archive.content():
        digest.update(chunk)
        head = head or chunk[:_HEAD_BYTES]
    return Member(offset, size, f"sha256:{digest.hexdigest()}", head)
