"""Files for a machine, and from one: in memory, with their modes, and without a path that leads elsewhere.

Archives of machines are data of strangers. Nothing here follows a link of them.
"""

from __future__ import annotations

import fnmatch
import io
import tarfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from sandrl.errors import InputError

MOST_BYTES = 1 << 30
"""How much the files of one archive may have together."""

_MOST_ENTRIES = 200_000
DAMAGES = (tarfile.TarError, ArithmeticError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What `tarfile` raises for headers that somebody made up: sizes of no integer, thousands of headers of one file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a directory or a symbolic link.

    Attributes:
        name: Its relative path, without `..`.
        mode: Its permission bits.
        content: None for a directory or a link.
        target: Where the link leads; None for a file or a directory.
    """

    name: str
    mode: int = 0o644
    content: bytes | None = field(default=None, repr=False)
    target: str | None = None

    @property
    def is_directory(self) -> bool:
        return self.content is None and self.target is None


def of_archive(archive: bytes, most_bytes: int = MOST_BYTES) -> list[Entry]:
    """The content of a tar archive that is not compressed, parents first; devices and pipes are left out.

    Raises:
        InputError: If it is damaged, too large, or has a path that leads out of it.
    """
    found: dict[str, Entry] = {}
    left, offset = most_bytes, -1
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as file:
            for member in file:
                # Those without end have a header that leads back to an earlier one.
                if member.size < 0 or member.offset <= offset:
                    raise InputError("is damaged: a size is negative", path="the archive of a machine")
                # A sparse file needs no archive of its size.
                most = min(left, len(archive)) if member.issparse() else left
                if len(found) > _MOST_ENTRIES or member.size > most:
                    raise InputError("is too large", path="the archive of a machine")
                offset = member.offset
                name = safe_name(member.name)
                if name is None:
                    raise InputError(f"has the path {member.name!r}, which leads out", path="the archive of a machine")
                entry = _entry(file, member, name, found)
                if entry is not None and name:
                    left -= len(entry.content or b"")
                    found[name] = entry
    except InputError:
        raise
    except DAMAGES as error:
        raise InputError(f"is damaged: {error}", path="the archive of a machine") from error
    return list(found.values())


def _entry(file: tarfile.TarFile, member: tarfile.TarInfo, name: str, found: dict[str, Entry]) -> Entry | None:
    mode = member.mode & 0o7777
    if member.isdir():
        return Entry(name, mode)
    if member.issym():
        return Entry(name, 0o777, target=member.linkname)
    if member.islnk():
        first = found.get(safe_name(member.linkname) or "")
        return None if first is None else Entry(name, first.mode, first.content, first.target)
    content = file.extractfile(member) if member.isreg() else None
    return None if content is None else Entry(name, mode, content.read())


def safe_name(name: str) -> str | None:
    """The name of an archive's member without empty parts; None if it leads out, or is no name."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts or "\0" in name else "/".join(parts)


def archived(entries: Iterable[Entry], owner: tuple[int, int] = (0, 0)) -> bytes:
    """A tar archive of entries that belong to a user and a group."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as file:
        for entry in entries:
            member = tarfile.TarInfo(entry.name)
            member.mode, member.mtime, (member.uid, member.gid) = entry.mode, time.time(), owner
            content = entry.content or b""
            member.size = len(content)
            if entry.is_directory:
                member.type = tarfile.DIRTYPE
            elif entry.target is not None:
                member.type, member.linkname = tarfile.SYMTYPE, entry.target
            file.addfile(member, io.BytesIO(content))
    return output.getvalue()


def paths_of(entries: Iterable[Entry]) -> list[str]:
    """The names of entries and of all their parents, parents first."""
    found: dict[str, None] = {}
    for entry in entries:
        parts = entry.name.split("/")
        found.update(dict.fromkeys("/".join(parts[:depth]) for depth in range(1, len(parts) + 1)))
    return list(found)


def without(entries: Iterable[Entry], patterns: Iterable[str]) -> list[Entry]:
    """The entries that no pattern names, as `tar --exclude` understands them: by a path, or by the end of one."""
    patterns = list(patterns)

    def is_named(name: str) -> bool:
        parts = name.split("/")
        ends = ["/".join(parts[first:last]) for last in range(1, len(parts) + 1) for first in range(last)]
        return any(fnmatch.fnmatchcase(end, pattern) for end in ends for pattern in patterns)

    return [entry for entry in entries if not is_named(entry.name)]
