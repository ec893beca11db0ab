"""Archives of what is put into the machine of a task, and of what is collected from it.

A directory of a task is data of strangers: links in it are kept as links and never followed, and whatever is no file, no
directory and no link is left out. A collected archive was written in a sandbox: it is never extracted on this machine,
and only files, directories and links that stay inside of it are handed to a verifier, so that an artifact cannot be a
link to the tests.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sandrl.errors import InputError

MOST_BYTES = 256 << 20
"""The most that the files of a task, or what is collected of one path, may have."""

_MOST_ENTRIES = 100_000
_LINK_LENGTH = 4096


def archive_of(directories: Sequence[str], files: Iterable[tuple[str, bytes]] = ()) -> bytes:
    """A tar archive of the content of directories of this machine, one over the other, and of further files.

    Raises:
        InputError: If a directory cannot be read, or is too large.
    """
    entries = {name: path for directory in directories for name, path in _walk(directory)}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(entries.items()):
            try:
                _add(archive, name, path)
            except OSError as error:
                raise InputError(f"cannot be read: {error.strerror}", path=path) from error
            if content.tell() > MOST_BYTES:
                raise InputError(f"has more than {MOST_BYTES >> 20} MiB of files", path=Path(directories[0]))
        for name, data in files:
            member = _member(name, tarfile.REGTYPE, 0o755 if data.startswith(b"#!") else 0o644)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def _walk(directory: str) -> Iterator[tuple[str, Path]]:
    count = 0
    pending = [""]
    while pending:
        inner = pending.pop()
        try:
            with os.scandir(Path(directory, inner)) as found:
                entries = list(found)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=Path(directory, inner)) from error
        for entry in entries:
            name = posixpath.join(inner, entry.name)
            count += 1
            if count > _MOST_ENTRIES:
                raise InputError(f"has more than {_MOST_ENTRIES} files", path=Path(directory))
            if entry.is_dir(follow_symlinks=False):
                pending.append(name)
            yield name, Path(entry.path)


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISDIR(found.st_mode):
        archive.addfile(_member(name, tarfile.DIRTYPE, mode | 0o755))
    elif stat.S_ISLNK(found.st_mode):
        member = _member(name, tarfile.SYMTYPE, 0o777)
        member.linkname = os.readlink(path)
        archive.addfile(member)
    elif stat.S_ISREG(found.st_mode):
        member = _member(name, tarfile.REGTYPE, mode | 0o444)
        # A file that was replaced meanwhile by a link, or a device, is not opened.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            opened = os.fstat(descriptor)
            if stat.S_ISREG(opened.st_mode) and opened.st_size <= MOST_BYTES:
                member.size = opened.st_size
                archive.addfile(member, file)
            else:
                raise InputError(f"is larger than {MOST_BYTES >> 20} MiB, or no file", path=path)


def _member(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode = kind, mode
    return member


def harmless(content: bytes) -> bytes:
    """A collected archive without what may deceive a verifier: links that leave it, devices, and special modes.

    Raises:
        ValueError: If it is no archive, or has too many entries.
    """
    kept = io.BytesIO()
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive,
            tarfile.open(fileobj=kept, mode="w", format=tarfile.PAX_FORMAT) as copy,
        ):
            links: set[str] = set()
            for count, member in enumerate(archive):
                if count > _MOST_ENTRIES:
                    raise ValueError(f"has more than {_MOST_ENTRIES} entries")
                name = posixpath.normpath(member.name)
                if not _is_inside(name) or any(name.startswith(f"{link}/") for link in links):
                    continue
                new = _member(name, member.type, member.mode & 0o777)
                if member.isreg():
                    new.size = member.size
                    copy.addfile(new, archive.extractfile(member))
                elif member.isdir():
                    copy.addfile(new)
                elif member.issym() and _stays(name, member.linkname):
                    links.add(name)
                    new.linkname = member.linkname
                    copy.addfile(new)
                elif member.islnk() and _is_inside(target := posixpath.normpath(member.linkname)):
                    new.linkname = target
                    copy.addfile(new)
    except tarfile.TarError as error:
        raise ValueError(f"is no archive: {error}") from error
    return kept.getvalue()


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and name != ".." and not name.startswith("../")


def _stays(name: str, target: str) -> bool:
    if not target or target.startswith("/") or len(target) > _LINK_LENGTH:
        return False
    # The first entry is the collected path itself; a link in it must not leave it.
    root, inner = name.split("/")[0], posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return name != root and (inner == root or inner.startswith(f"{root}/"))
