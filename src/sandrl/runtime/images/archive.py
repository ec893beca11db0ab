"""Reads tar archives from a stream: ustar, GNU and PAX, with sparse files and names of any bytes.

Python's `tarfile` reads a single header here. It does not read whole archives: it keeps every member in memory, loads
extended headers of any size, takes a damaged header for the end of the archive, and rounds times.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

_BLOCK = 512
_CHUNK = 1 << 20
_MOST_HEADER_BYTES = 1 << 20
_MOST_EXTENTS = 1 << 20
_ENCODING, _ERRORS = "utf-8", "surrogateescape"
_ATTRIBUTE = b"SCHILY.xattr."
_LONG_NAME, _LONG_LINK, _SPARSE = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE
_EXTENDED, _GLOBAL = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE), (tarfile.XGLTYPE,)
# Four extents in the header, and 21 in each block after it.
_HEADER_MAP, _HEADER_EXTENTS, _BLOCK_EXTENTS = 386, 4, 21
_IS_EXTENDED, _REAL_SIZE = 482, 483

Records = dict[bytes, bytes]
Extents = tuple[tuple[int, int], ...]


class ArchiveError(Exception):
    """The archive is damaged, or beyond a limit."""


class Stream(Protocol):
    """What an archive is read from."""

    def read(self, size: int) -> bytes:
        """Reads up to so many bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A member of an archive.

    Attributes:
        kind: The type, as `tarfile` names it (`REGTYPE`, `DIRTYPE`, …).
        size: Bytes of the file, holes included.
        stored: Bytes of content in the archive.
        modified: Nanoseconds since the epoch.
        extents: Offsets and lengths of the stored content of a sparse file; None for other files.
    """

    name: bytes
    kind: bytes
    mode: int
    user: int
    group: int
    size: int
    stored: int
    modified: int
    link: bytes
    attributes: dict[bytes, bytes] = field(default_factory=dict)
    extents: Extents | None = None


class Archive:
    """The entries of an archive, one after the other.

    Args:
        needs_end: Whether an archive without its end mark is damaged. Some builders write none, so only an archive
            that no digest verifies needs it.
    """

    def __init__(self, stream: Stream, *, needs_end: bool = False) -> None:
        self._stream = stream
        self._needs_end = needs_end
        self._defaults: Records = {}
        self._default_bytes = 0
        self._left = 0
        self._padding = 0
        self.position = 0
        """Bytes that were read."""

    def __iter__(self) -> Iterator[Entry]:
        """Gives the entries; the content of one is skipped unless it was read.

        Raises:
            ArchiveError: If the archive is damaged.
        """
        while (entry := self._next()) is not None:
            yield entry
            for _ in self.content():
                pass

    def content(self) -> Iterator[bytes]:
        """The stored content of the current entry, in pieces.

        Raises:
            ArchiveError: If the archive ends before.
        """
        while self._left:
            chunk = self._some(min(self._left, _CHUNK))
            self._left -= len(chunk)
            yield chunk
        self._exactly(self._padding)
        self._padding = 0

    def _next(self) -> Entry | None:
        records: Records = {}
        extents: list[tuple[int, int]] = []
        name = link = b""
        while (block := self._header()) is not None:
            header = _parsed(block)
            if header.type in (_LONG_NAME, _LONG_LINK):
                text = self._extension(header.size).rstrip(b"\0")
                name, link = (text, link) if header.type == _LONG_NAME else (name, text)
            elif header.type in _GLOBAL:
                self._default_bytes += header.size
                if self._default_bytes > _MOST_HEADER_BYTES:
                    raise ArchiveError(f"its global headers are larger than {_MOST_HEADER_BYTES >> 20} MiB")
                self._defaults |= dict(_records(self._extension(header.size)))
            elif header.type in _EXTENDED:
                pairs = list(_records(self._extension(header.size)))
                records, extents = dict(pairs), _extents_of(pairs)
            else:
                return self._entry(header, block, self._defaults | records, extents, name, link)
        return None

    def _entry(
        self,
        header: tarfile.TarInfo,
        block: bytes,
        records: Records,
        extents: list[tuple[int, int]],
        name: bytes,
        link: bytes,
    ) -> Entry:
        # What follows the header has the size of the extended header, if there is one.
        stored = _number(records, b"size", header.size)
        entry = Entry(
            name=records.get(b"path", name or header.name.encode(_ENCODING, _ERRORS)),
            kind=tarfile.REGTYPE if header.isreg() else header.type,
            mode=header.mode,
            user=_number(records, b"uid", header.uid),
            group=_number(records, b"gid", header.gid),
            size=stored,
            stored=stored,
            modified=_nanoseconds(records[b"mtime"]) if b"mtime" in records else int(header.mtime) * 10**9,
            link=records.get(b"linkpath", link or header.linkname.encode(_ENCODING, _ERRORS)),
            attributes={
                key.removeprefix(_ATTRIBUTE): value for key, value in records.items() if key.startswith(_ATTRIBUTE)
            },
        )
        if not header.isreg() and header.type in tarfile.SUPPORTED_TYPES:
            # Some archives give directories and links a size; no content follows.
            entry = replace(entry, size=0, stored=0)
        self._left, self._padding = entry.stored, -entry.stored % _BLOCK
        return self._sparse(entry, header, block, records, extents)

    def _sparse(
        self, entry: Entry, header: tarfile.TarInfo, block: bytes, records: Records, extents: list[tuple[int, int]]
    ) -> Entry:
        size = entry.size
        if header.type == _SPARSE:
            size, extents = _field(block, _REAL_SIZE), self._old_extents(block)
        elif b"GNU.sparse.major" in records:
            size, extents = _number(records, b"GNU.sparse.realsize", size), self._stored_extents()
        elif b"GNU.sparse.map" in records or b"GNU.sparse.size" in records:
            size = _number(records, b"GNU.sparse.size", size)
            extents = _pairs(records[b"GNU.sparse.map"].split(b",")) if b"GNU.sparse.map" in records else extents
        else:
            return entry
        _check_extents(extents, size, self._left)
        name = records.get(b"GNU.sparse.name", entry.name)
        return replace(entry, name=name, kind=tarfile.REGTYPE, size=size, stored=self._left, extents=tuple(extents))

    def _old_extents(self, block: bytes) -> list[tuple[int, int]]:
        fields = [block[_HEADER_MAP : _HEADER_MAP + _HEADER_EXTENTS * 24]]
        is_extended = block[_IS_EXTENDED]
        while is_extended:
            more = self._exactly(_BLOCK)
            fields.append(more[: _BLOCK_EXTENTS * 24])
            is_extended = more[_BLOCK_EXTENTS * 24]
            if len(fields) * _BLOCK_EXTENTS > _MOST_EXTENTS:
                raise ArchiveError("a sparse file has too many parts")
        text = b"".join(fields)
        numbers = [_field(text, place) for place in range(0, len(text), 12)]
        return [pair for pair in zip(numbers[::2], numbers[1::2], strict=True) if any(pair)]

    def _stored_extents(self) -> list[tuple[int, int]]:
        # PAX 1.0: the map is text before the content, padded to whole blocks.
        lines: list[bytes] = []
        text, wanted = b"", 1
        while len(lines) < wanted:
            if self._left < _BLOCK:
                raise ArchiveError("the map of a sparse file is cut off")
            text += self._exactly(_BLOCK)
            self._left -= _BLOCK
            *complete, text = text.split(b"\n")
            lines += complete
            if lines and wanted == 1:
                wanted = 1 + 2 * _integer(lines[0])
            if not 0 < wanted <= 2 * _MOST_EXTENTS or len(text) > _BLOCK:
                raise ArchiveError("a sparse file has too many parts")
        return _pairs(lines[1:wanted])

    def _header(self) -> bytes | None:
        block = self._stream.read(_BLOCK)
        if not block and self.position and not self._needs_end:
            return None
        self.position += len(block)
        block += self._exactly(_BLOCK - len(block))
        return block if block.strip(b"\0") else None

    def _extension(self, size: int) -> bytes:
        if not 0 <= size <= _MOST_HEADER_BYTES:
            raise ArchiveError(f"an extended header is larger than {_MOST_HEADER_BYTES >> 20} MiB")
        return self._exactly(size + -size % _BLOCK)[:size]

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(self._some(size))
            size -= len(parts[-1])
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        chunk = self._stream.read(size)
        if not chunk:
            raise ArchiveError("is cut off")
        self.position += len(chunk)
        return chunk


def _parsed(block: bytes) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, _ENCODING, _ERRORS)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise ArchiveError(f"has a damaged header: {error}") from error
    if header.size < 0:
        raise ArchiveError("has a damaged header: a negative size")
    return header


def _field(block: bytes, place: int) -> int:
    try:
        return int(tarfile.nti(block[place : place + 12]))  # type: ignore[attr-defined]
    except tarfile.TarError as error:
        raise ArchiveError("the map of a sparse file is damaged") from error


def _records(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 0
    while place < len(text):
        space = text.find(b" ", place, place + 20)
        end = place + _integer(text[place:space])
        key, equals, value = text[space + 1 : end - 1].partition(b"=")
        if space < 0 or not space < end <= len(text) or text[end - 1 : end] != b"\n" or not equals:
            raise ArchiveError("has a damaged extended header")
        yield key, value
        place = end


def _extents_of(pairs: list[tuple[bytes, bytes]]) -> list[tuple[int, int]]:
    # PAX 0.0 repeats the fields.
    return _pairs([value for key, value in pairs if key in (b"GNU.sparse.offset", b"GNU.sparse.numbytes")])


def _pairs(numbers: list[bytes]) -> list[tuple[int, int]]:
    if len(numbers) % 2:
        raise ArchiveError("the map of a sparse file is damaged")
    return [(_integer(first), _integer(second)) for first, second in zip(numbers[::2], numbers[1::2], strict=True)]


def _check_extents(extents: list[tuple[int, int]], size: int, stored: int) -> None:
    end = total = 0
    for offset, length in extents:
        if offset < end or length < 0:
            raise ArchiveError("the map of a sparse file is damaged")
        end, total = offset + length, total + length
    if end > size or total != stored:
        raise ArchiveError("the map of a sparse file is damaged")


def _number(records: Records, key: bytes, other: int) -> int:
    return _integer(records[key]) if key in records else other


def _integer(text: bytes) -> int:
    if not text.isdigit() or len(text) > 20:
        raise ArchiveError("has a damaged extended header: a number is none")
    return int(text)


def _nanoseconds(text: bytes) -> int:
    whole, _, fraction = text.partition(b".")
    sign = -1 if whole.startswith(b"-") else 1
    digits = fraction[:9].ljust(9, b"0")
    return sign * (_integer(whole.lstrip(b"-") or b"0") * 10**9 + _integer(digits))
