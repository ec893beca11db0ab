"""The files that `COPY`, `ADD` and `WORKDIR` put into an image, as a layer.

No program of the image runs for it. Places are resolved in the image's own tree, so that no link of an image, a context
or an archive leads out of it. The content is read twice: for the key of the step, and, unless the step is stored, for
the layer; it must be the same.
"""

from __future__ import annotations

import bz2
import hashlib
import lzma
import os
import stat
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from sandrl.errors import InputError
from sandrl.runtime.images.archive import Archive, ArchiveError, Entry
from sandrl.runtime.images.compression import CompressionError, Plain
from sandrl.runtime.images.dockerfile.patterns import Ignored, compiled, is_wild
from sandrl.runtime.images.merged import MergedTree, Parts
from sandrl.runtime.images.origins import Origin
from sandrl.runtime.images.unpack import Limits, Measured

_CHUNK = 1 << 20
_MOST_FILES = 1_000_000
_MOST_ACCOUNTS = 1 << 20
_MOST_HEAD = 6
_MOST_DEPTH = 200
_WHITEOUT = ".wh."
_NEW_DIRECTORY, _NEW_FILE = 0o755, 0o644
_OTHER_COMPRESSIONS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_KINDS = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFLNK: tarfile.SYMTYPE}

_DAMAGES = (ArchiveError, CompressionError, OSError, EOFError, lzma.LZMAError)
MOST_ID = 2**32 - 2

Owner = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Item:
    """A file of a layer.

    Attributes:
        kind: Its type, as `tarfile` names it.
        link: What a link leads to; of a hard link, the path in the layer.
        open: Opens its content; None for what has none.
        digest: Of its content.
    """

    path: Parts
    kind: bytes
    mode: int
    owner: Owner
    modified: float
    link: str = ""
    attributes: dict[str, bytes] = field(default_factory=dict)
    open: Callable[[], IO[bytes]] | None = None
    digest: str = ""

    def described(self) -> list[object]:
        """What matters of it for the key of a step: not its time."""
        attributes = {name: value.hex() for name, value in self.attributes.items()}
        return ["/".join(self.path), self.kind.decode(), self.mode, self.owner, self.link, attributes, self.digest]


class Layer:
    """The files that a step puts into an image.

    Args:
        image: The files of the image so far.
        directory: What relative destinations are below.
        owner: Of all files; None to keep what they have, or user 0.
        mode: Of all files and directories that are copied; None to keep what they have.
        scratch: Where archives are unpacked to read them, in files without names.
    """

    def __init__(
        self, image: MergedTree, directory: str, scratch: Path, *, owner: Owner | None = None, mode: int | None = None
    ) -> None:
        self._image = image
        self._directory = directory
        self._owner = owner
        self._mode = mode
        self._items: dict[Parts, Item] = {}
        self._resolved: dict[Parts, Parts] = {}
        self._scratch = scratch
        self._archives = ExitStack()

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, *_: object) -> None:
        self._archives.close()

    @property
    def items(self) -> list[Item]:
        """The files so far, directories before what is in them."""
        return list(self._items.values())

    def make_directory(self, path: str) -> None:
        """Makes a directory, and those above it, unless they exist."""
        self._make_above((*self._place(path), ""))

    def copy(
        self,
        origin: Origin,
        sources: Sequence[str],
        destination: str,
        *,
        keeps_parents: bool = False,
        excluded: Ignored | None = None,
        unpacks: bool = False,
    ) -> None:
        """Copies files, and what is in directories.

        Raises:
            InputError: If there is no such file, or it cannot be where it is to be.
        """
        found = [(source, match) for source in sources for match in _matches(origin, source)]
        place = self._place(destination)
        is_directory = (
            keeps_parents
            or destination.endswith(("/", "/."))
            or destination in (".", "..")
            or (len(found) > 1 or self._image.is_directory(place))
        )
        for source, match in found:
            real = origin.tree.resolve(match)
            status = origin.tree.find(real)
            if status is None or not origin.has(real):
                raise _missing(origin, source)
            target = (*place, *_kept_parents(source, match)) if keeps_parents else place
            if stat.S_ISDIR(status.st_mode):
                self._copy_directory(origin, real, target, excluded or Ignored())
            elif unpacks and (archive := _opened_archive(origin.tree, real, self._scratch)) is not None:
                self._unpack(self._archives.enter_context(archive), destination, "/".join(real))
            elif not excluded or not excluded.leaves_out("/".join(match)):
                self._add_file(origin, real, status, (*target, match[-1]) if is_directory else target)

    def write(
        self,
        name: str,
        destination: str,
        open_: Callable[[], IO[bytes]],
        digest: str,
        *,
        several: bool = False,
        mode: int = _NEW_FILE,
        owner: Owner = (0, 0),
    ) -> None:
        """Writes a file with the content that `open_` opens when the layer is written; one of several has its name."""
        place = self._place(destination)
        if several or destination.endswith("/") or destination in (".", "..") or self._image.is_directory(place):
            place = (*place, name)
        self._add(Item(place, tarfile.REGTYPE, mode, owner, time.time(), open=open_, digest=digest))

    def _unpack(self, file: IO[bytes], destination: str, described: str) -> None:
        place = self._place(destination)
        self._make_above((*place, ""))
        try:
            for entry in (archive := Archive(file)):
                self._unpack_entry(entry, archive, file, place, described)
        except ArchiveError as error:
            raise InputError(f"{described}: {error}", path=self._image.described) from error

    def _unpack_entry(self, entry: Entry, archive: Archive, file: IO[bytes], place: Parts, described: str) -> None:
        parts = _safe_parts(entry.name, described)
        if not parts or entry.kind in (tarfile.CHRTYPE, tarfile.BLKTYPE):
            return
        if entry.extents is not None:
            raise InputError(f"{described}: has sparse files, which ADD does not support")
        link = os.fsdecode(entry.link)
        if entry.kind == tarfile.LNKTYPE:
            above = (*place, *_safe_parts(entry.link, described))
            link = "/".join((*self._where(above[:-1]), *above[-1:]))
        offset, digest = archive.position, ""
        if entry.kind == tarfile.REGTYPE:
            hashed = hashlib.sha256()
            for chunk in archive.content():
                hashed.update(chunk)
            digest = hashed.hexdigest()
        self._add(
            Item(
                (*place, *parts),
                entry.kind,
                entry.mode & 0o7777,
                (entry.user, entry.group),
                entry.modified / 1e9,
                link=link,
                attributes={os.fsdecode(name): value for name, value in entry.attributes.items()},
                open=(lambda: _Part(file, offset, entry.size)) if entry.kind == tarfile.REGTYPE else None,
                digest=digest,
            )
        )

    def _copy_directory(self, origin: Origin, source: Parts, target: Parts, excluded: Ignored) -> None:
        if not self._image.is_directory(self._where(target)):
            status = origin.tree.find(source)
            assert status is not None, "it was found"
            self._add(self._item(origin, source, status, target))
        for path, status in _walk(origin, source, excluded):
            self._add_file(origin, path, status, (*target, *path[len(source) :]))

    def _add_file(self, origin: Origin, source: Parts, status: os.stat_result, target: Parts) -> None:
        if stat.S_IFMT(status.st_mode) in _KINDS:
            self._add(self._item(origin, source, status, target))

    def _item(self, origin: Origin, source: Parts, status: os.stat_result, target: Parts) -> Item:
        tree = origin.tree
        kind = _KINDS[stat.S_IFMT(status.st_mode)]
        item = Item(
            target,
            kind,
            stat.S_IMODE(status.st_mode),
            (status.st_uid, status.st_gid) if origin.keeps_owners and tree.keeps_owners else (0, 0),
            status.st_mtime,
            attributes=tree.attributes(source) if origin.keeps_owners and kind == tarfile.REGTYPE else {},
        )
        if kind == tarfile.SYMTYPE:
            return replace(item, link=tree.link(source))
        if kind == tarfile.DIRTYPE:
            return item
        with tree.open(source) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()

        def opened() -> IO[bytes]:
            with tree.open(source) as descriptor:
                return os.fdopen(os.dup(descriptor), "rb")

        return replace(item, open=opened, digest=digest)

    def _add(self, item: Item) -> None:
        if len(self._items) >= _MOST_FILES:
            raise InputError(f"more than {_MOST_FILES} files are copied")
        path = self._make_above(item.path)
        there = self._image.find(path) if path not in self._items else None
        if there is not None and stat.S_ISLNK(there.st_mode) and item.kind in (tarfile.REGTYPE, tarfile.DIRTYPE):
            # What a link of the image leads to is written, or written into.
            path = self._make_above(self._image.resolve(path))
            there = self._image.find(path)
        if there is not None and stat.S_ISDIR(there.st_mode) != (item.kind == tarfile.DIRTYPE):
            what = "a directory" if stat.S_ISDIR(there.st_mode) else "a file"
            raise InputError(f"/{'/'.join(path)} is {what} in the image, and something else is copied there")
        owner = item.owner if self._owner is None else self._owner
        mode = item.mode if self._mode is None or item.kind == tarfile.SYMTYPE else self._mode
        self._items[path] = replace(item, path=path, owner=owner, mode=mode)

    def _make_above(self, path: Parts) -> Parts:
        # Makes the directories above a path; returns where it is without links.
        if not path:
            return path
        above = self._where(path[:-1])
        for name in (*above, path[-1]):
            if name.startswith(_WHITEOUT):
                raise InputError(f"a file cannot have the name {name!r}: layers have it for removed files")
        for count in range(1, len(above) + 1):
            part = above[:count]
            if part in self._items and self._items[part].kind == tarfile.DIRTYPE:
                continue
            if part not in self._items and self._image.is_directory(part):
                continue
            if part in self._items or self._image.find(part) is not None:
                raise InputError(f"/{'/'.join(part)} is not a directory in the image")
            owner = (0, 0) if self._owner is None else self._owner
            self._items[part] = Item(part, tarfile.DIRTYPE, _NEW_DIRECTORY, owner, time.time())
        return (*above, path[-1])

    def _where(self, path: Parts) -> Parts:
        if path not in self._resolved:
            self._resolved[path] = self._image.resolve(path)
        return self._resolved[path]

    def _place(self, text: str) -> Parts:
        return self._image.resolve(
            tuple(f"{self._directory}/{text}".split("/") if text[:1] != "/" else text.split("/"))
        )


def write_layer(items: Iterable[Item], target: IO[bytes]) -> None:
    """Writes files as a layer, a tar archive.

    Raises:
        InputError: If a file has changed meanwhile.
    """
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for item in items:
            member = tarfile.TarInfo("/".join(item.path) or ".")
            member.type, member.mode, member.mtime = item.kind, item.mode, item.modified
            member.uid, member.gid = item.owner
            member.linkname = item.link
            member.pax_headers = {
                f"SCHILY.xattr.{name}": value.decode("utf-8", "surrogateescape")
                for name, value in item.attributes.items()
            }
            if item.open is None:
                archive.addfile(member)
                continue
            with item.open() as file:
                member.size = file.seek(0, os.SEEK_END)
                file.seek(0)
                hashed = _Hashed(file)
                try:
                    archive.addfile(member, hashed)  # type: ignore[arg-type] # it reads, and nothing else is needed
                except OSError as error:
                    raise InputError(f"/{'/'.join(item.path)} cannot be copied: {error}") from error
            if hashed.digest() != item.digest:
                raise InputError(f"the file for /{'/'.join(item.path)} changed while it was copied", hint="build again")


def find_owner(text: str, image: MergedTree) -> Owner:
    """The user and the group of `USER`, `UID`, `USER:GROUP` or `UID:GID`, by the files of an image.

    Raises:
        InputError: If the image does not have them.
    """
    name, colon, group = text.partition(":")
    row = next((row for row in _rows(image, "passwd", 4) if name == row[0]), None)
    user = _number(row[2] if row else name)
    if user is None:
        raise InputError(f"the image has no user {name!r}", hint="give its number, or make it in a RUN before")
    if not colon:
        own = _number(row[3]) if row else None
        return user, user if own is None else own
    number = _number(next((row[2] for row in _rows(image, "group", 3) if group == row[0]), group))
    if number is None:
        raise InputError(f"the image has no group {group!r}", hint="give its number, or make it in a RUN before")
    return user, number


def _rows(image: MergedTree, name: str, columns: int) -> Iterator[list[str]]:
    for line in image.read(("etc", name), _MOST_ACCOUNTS).decode("utf-8", "replace").splitlines():
        row = line.split(":")
        if len(row) >= columns:
            yield row


def _number(text: str) -> int | None:
    # The last number means that an owner is not changed.
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_ID))
    return int(text) if is_number and int(text) <= MOST_ID else None


def _matches(origin: Origin, source: str) -> list[Parts]:
    parts = tuple(part for part in os.path.normpath(f"/{source}").split("/") if part)
    if not is_wild(source):
        if not origin.has(parts) or origin.tree.find(origin.tree.resolve(parts)) is None:
            raise _missing(origin, source)
        return [parts]
    found: list[Parts] = [()]
    for part in parts:
        following: list[Parts] = []
        for above in found:
            if not is_wild(part):
                following.append((*above, part))
            elif origin.tree.is_directory(real := origin.tree.resolve(above)):
                following += [(*above, name) for name in origin.tree.names(real) if compiled(part).fits(name)]
        found = following
    kept = [each for each in found if origin.has(each) and origin.tree.find(origin.tree.resolve(each)) is not None]
    if not kept:
        raise _missing(origin, source)
    return kept


def _missing(origin: Origin, source: str) -> InputError:
    parts = tuple(part for part in os.path.normpath(f"/{source}").split("/") if part)
    if not is_wild(source) and not origin.has(parts):
        return InputError(f"{source!r} is left out of the context by its ignore file", path=origin.tree.described)
    return InputError(f"there is no {source!r}", path=origin.tree.described)


def _kept_parents(source: str, match: Parts) -> Parts:
    # `a/./b/c` keeps `b` alone.
    parts = [part for part in source.split("/") if part]
    kept = match[parts.index(".") :] if "." in parts else match
    return kept[:-1]


def _walk(origin: Origin, source: Parts, excluded: Ignored) -> Iterator[tuple[Parts, os.stat_result]]:
    for name in origin.tree.names(source):
        yield from _walk_one(origin, (*source, name), len(source), excluded)


def _walk_one(origin: Origin, path: Parts, depth: int, excluded: Ignored) -> Iterator[tuple[Parts, os.stat_result]]:
    status = origin.tree.find(path)
    if status is None:
        return
    if len(path) > _MOST_DEPTH:
        raise InputError(f"{'/'.join(path)[:100]!r} … is more than {_MOST_DEPTH} deep", path=origin.tree.described)
    is_left_out = not origin.has(path) or excluded.leaves_out("/".join(path[depth:]))
    if not stat.S_ISDIR(status.st_mode):
        if not is_left_out:
            yield path, status
        return
    if is_left_out and not (origin.ignored.has_exceptions or excluded.has_exceptions):
        return
    is_told = not is_left_out
    if is_told:
        yield path, status
    for name in origin.tree.names(path):
        for each in _walk_one(origin, (*path, name), depth, excluded):
            if not is_told:
                yield path, status
                is_told = True
            yield each


def _safe_parts(name: bytes, described: str) -> Parts:
    parts = tuple(part for part in os.fsdecode(name).split("/") if part not in ("", "."))
    if ".." in parts:
        raise InputError(f"{described}: has a name with `..`, which an archive of ADD cannot have")
    return parts


def _opened_archive(tree: MergedTree, path: Parts, scratch: Path) -> IO[bytes] | None:
    # The plain content of an archive, in a file without a name; None for other files.
    with tree.open(path) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
        head = file.read(_MOST_HEAD)
        file.seek(0)
        other = next((make for magic, make in _OTHER_COMPRESSIONS.items() if head.startswith(magic)), None)
        try:
            # A look at the first header, and then all of it.
            stream: IO[bytes] | Plain = other(file) if other else Plain(file)
            if next(iter(Archive(stream)), None) is None:
                return None
        except _DAMAGES:
            return None
        file.seek(0)
        plain = TemporaryFile(dir=scratch)  # noqa: SIM115 - its reader closes it
        try:
            measured = Measured(other(file) if other else file, Limits().most_bytes)
            while chunk := measured.read(_CHUNK):
                plain.write(chunk)
        except _DAMAGES as error:
            plain.close()
            raise InputError(
                f"the archive {'/'.join(path)} cannot be unpacked: {error}", path=tree.described
            ) from error
    plain.seek(0)
    return plain


class _Part(BytesIO):
    # A part of a file, read as its own.
    def __init__(self, file: IO[bytes], offset: int, size: int) -> None:
        super().__init__()
        self._file, self._offset, self._size, self._done = file, offset, size, 0

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._done = offset + (self._size if whence == os.SEEK_END else 0)
        return self._done

    def read(self, size: int | None = -1, /) -> bytes:
        left = self._size - self._done
        chunk = os.pread(
            self._file.fileno(), left if size is None or size < 0 else min(size, left), self._offset + self._done
        )
        self._done += len(chunk)
        return chunk


class _Hashed:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hashed = hashlib.sha256()

    def read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        self._hashed.update(chunk)
        return chunk

    def digest(self) -> str:
        return self._hashed.hexdigest()
