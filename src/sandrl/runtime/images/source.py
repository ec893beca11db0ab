"""Where an image comes from: the protocol of all sources, and what a manifest and an index say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

MOST_MANIFEST_BYTES = 4 << 20
"""No manifest or index is larger."""


class Source(Protocol):
    """Where an image comes from: a registry, a directory or a file. The store verifies what a source gives."""

    def describe(self) -> str:
        """Names the source in messages, in a few words."""

    def manifest(self) -> bytes:
        """The manifest of the image for this machine; an index is resolved with `choose_manifest`.

        Raises:
            SandrlError: If there is none, or it cannot be read.
        """

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        """The content of a blob from a byte on, in pieces; the iterator may be closed early.

        Raises:
            SandrlError: If it cannot be read.
        """


def choose_manifest(content: bytes, described: str) -> str | None:
    """The digest of the manifest for this machine that an index names; None if the content is a manifest itself.

    Raises:
        InputError: If it is neither, or names none for this machine.
    """
    raise NotImplementedError
