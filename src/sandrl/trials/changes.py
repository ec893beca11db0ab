"""Reads what a kept state changes in its image, file by file, and makes states that differ from it in one file.

A state is an archive that programs of strangers have filled. It is read as a stream, and nothing of it is written to
this machine but other states.
"""

from __future__ import annotations

import gzip
import io
import posixpath
import tarfile
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, cast

from sandrl.errors import InputError
from sandrl.sandboxes import State
from sandrl.trials.entries import DAMAGES, safe_name
from sandrl.trials.state import MOST_BYTES, add_state

_MOST_MEMBERS = 1_000_000
_MOST_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20
_MOST_SECONDS = 1 << 33
_REMOVED, _SPECIAL = ".wh.", ".wh..wh."


class ChangeKind(StrEnum):
    """What a state has at a path: a file, a symbolic link, or nothing where the image below has something."""

    FILE = "file"
    LINK = "link"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """What a state has at a path, which begins with a slash.

    Attributes:
        mode: Permission bits.
        size: Of a file, in bytes.
        modified: Seconds since the epoch.
        target: Where a link leads.
    """

    path: str
    kind: ChangeKind = ChangeKind.FILE
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    size: int = 0
    modified: int = 0
    target: str = ""


class _Stream:
    # A plain file of which only as much is read at once as was allowed before: headers of strangers have any size.

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self.allowed_bytes = _MOST_HEADER_BYTES

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int) -> int:
        if place > MOST_BYTES:
            raise ValueError("it is too large")
        return self._file.seek(place)

    def read(self, size: int) -> bytes:
        self.allowed_bytes -= size
        if size < 0 or self.allowed_bytes < 0:
            raise ValueError("a header is too large")
        return self._file.read(size)


def changes_of(path: Path) -> Iterator[Change]:
    """The files and links of a state, and what it has removed, in the order of its file; no hard links.

    Raises:
        InputError: If it is damaged, or too large; also after some changes.
    """
    with _opened(path) as (archive, stream):
        for member, name in _members(archive, stream):
            found = _change(member, name)
            if found is not None:
                yield found


def contents_of(path: Path, wanted: Container[str], most_bytes: int) -> dict[str, bytes]:
    """The contents of some files of a state, by their paths, without those that are larger than is wanted.

    Raises:
        InputError: If it is damaged, or too large.
    """
    found: dict[str, bytes] = {}
    with _opened(path) as (archive, stream):
        for member, name in _members(archive, stream):
            if name in wanted and member.isreg() and not member.issparse() and member.size <= most_bytes:
                stream.allowed_bytes = member.size + _MOST_HEADER_BYTES
                file = archive.extractfile(member)
                found[name] = b"" if file is None else file.read()
    return found


def state_with(state: State, change: Change, content: bytes = b"") -> State:
    """Keeps a state that differs from another one at one path, beside it.

    Raises:
        InfrastructureError: If it cannot be written.
    """
    directory, name = posixpath.split(change.path.lstrip("/"))
    removed = change.kind is ChangeKind.REMOVED
    member = tarfile.TarInfo(posixpath.join(directory, f"{_REMOVED}{name}" if removed else name))
    if not removed:
        member.mode, member.uid, member.gid, member.mtime = change.mode, change.uid, change.gid, change.modified
    if change.kind is ChangeKind.LINK:
        member.type, member.linkname = tarfile.SYMTYPE, change.target
    else:
        member.size = len(content)

    def fill(file: IO[bytes]) -> None:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(member, io.BytesIO(content))

    return add_state(state.path.parent, state.image, state, fill)


def state_without(state: State, path: str) -> State:
    """Keeps a state that has the image's own file at one path, or none, beside it.

    Raises:
        InputError: If the state is damaged.
        InfrastructureError: If it cannot be written.
    """
    with _opened(state.path) as (archive, stream):
        parts = [
            (member.offset, archive.offset)  # where the next header begins
            for member, name in _members(archive, stream)
            if (found := _change(member, name)) is not None and found.path == path
        ]

    def fill(file: IO[bytes]) -> None:
        with gzip.open(state.path) as plain:
            place = 0
            for begin, end in (*parts, (MOST_BYTES + 1, 0)):
                while place < begin and (chunk := plain.read(min(_CHUNK_BYTES, begin - place))):
                    file.write(chunk)
                    place += len(chunk)
                if place == begin:
                    place = plain.seek(end)

    return add_state(state.path.parent, state.image, state.below, fill)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, _Stream]]:
    try:
        with gzip.open(path) as plain:
            stream = _Stream(plain)
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:") as archive:
                yield archive, stream
    except InputError:
        raise
    except (*DAMAGES, zlib.error) as error:
        raise InputError(f"is damaged: {error}", path=path) from error


def _members(archive: Any, stream: _Stream) -> Iterator[tuple[tarfile.TarInfo, str]]:
    offset = -1
    for _ in range(_MOST_MEMBERS):
        stream.allowed_bytes = _MOST_HEADER_BYTES
        member = archive.next()
        if member is None:
            return
        archive.members.clear()  # it would keep them all
        if member.size < 0 or member.offset <= offset:
            raise ValueError("a size is negative")
        offset = member.offset
        name = safe_name(member.name)
        if name:
            yield member, f"/{name}"
    raise ValueError(f"it has more than {_MOST_MEMBERS} entries")


def _change(member: tarfile.TarInfo, path: str) -> Change | None:
    directory, name = posixpath.split(path)
    if name.startswith(_REMOVED):
        is_special = name.startswith(_SPECIAL)
        return (
            None if is_special else Change(posixpath.join(directory, name.removeprefix(_REMOVED)), ChangeKind.REMOVED)
        )
    if not member.issym() and (not member.isreg() or member.issparse()):
        return None
    kind = ChangeKind.LINK if member.issym() else ChangeKind.FILE
    modified = member.mtime if 0 <= member.mtime < _MOST_SECONDS else 0
    return Change(path, kind, member.mode & 0o7777, member.uid, member.gid, member.size, int(modified), member.linkname)
