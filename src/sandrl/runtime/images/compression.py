"""Reads files that are compressed with gzip or Zstandard, or not at all. Their first bytes decide, not their names."""

from __future__ import annotations

import gzip
import sys
import zlib
from typing import IO, Any, cast

GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OTHERS = {b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_MOST_MAGIC = 6


class CompressionError(Exception):
    """The compressed content is damaged, or of a kind that cannot be read."""


def suffix_of(head: bytes) -> str:
    """The end of the media type for content that begins so: `+gzip`, `+zstd`, or empty for plain content."""
    return "+gzip" if head.startswith(GZIP) else "+zstd" if head.startswith(ZSTANDARD) else ""


class Plain:
    """The plain content of a file, from its current position on."""

    def __init__(self, file: IO[bytes]) -> None:
        start = file.tell()
        head = file.read(_MOST_MAGIC)
        file.seek(start)
        for magic, name in _OTHERS.items():
            if head.startswith(magic):
                raise CompressionError(f"is compressed with {name}; gzip, Zstandard and plain files can be read")
        self.is_compressed = bool(suffix_of(head))
        self._file: Any = file
        if head.startswith(GZIP):
            self._file = gzip.GzipFile(fileobj=file)
        elif head.startswith(ZSTANDARD):
            self._file = _zstandard(file)

    def read(self, size: int) -> bytes:
        """Reads up to so many bytes; none at the end.

        Raises:
            CompressionError: If the content is damaged.
        """
        try:
            return cast("bytes", self._file.read(size))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CompressionError(f"its compressed content is damaged: {error}") from error
        except Exception as error:
            # Each library of Zstandard has an error of its own.
            if type(error).__name__ != "ZstdError":
                raise
            raise CompressionError(f"its compressed content is damaged: {error}") from error


def _zstandard(file: IO[bytes]) -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd

        return zstd.ZstdFile(file)
    import zstandard

    return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
