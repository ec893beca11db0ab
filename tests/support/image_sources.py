"""A source of images for tests that gives an OCI layout's blobs as a slow, or unreliable, registry would."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

from sandrl.errors import ServiceError


class SlowSource:
    """The only image of an OCI layout, in small pieces.

    Args:
        fails_after: So many bytes of a blob are given, then it fails; None for all.
    """

    def __init__(
        self, directory: Path, *, piece_bytes: int = 1 << 12, wait_seconds: float = 0.0, fails_after: int | None = None
    ) -> None:
        self._blobs = directory / "blobs" / "sha256"
        self._index = json.loads((directory / "index.json").read_text())
        self._piece_bytes = piece_bytes
        self._wait_seconds = wait_seconds
        self._fails_after = fails_after
        self.asked: list[tuple[str, int]] = []
        """The digest and the offset of each blob that was asked for."""

    def describe(self) -> str:
        return "registry.test/image:1"

    def manifest(self) -> bytes:
        return self._content(self._index["manifests"][0]["digest"])

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        self.asked.append((digest, offset))
        content = self._content(digest)
        for place in range(offset, len(content), self._piece_bytes):
            if self._fails_after is not None and place - offset >= self._fails_after:
                raise ServiceError("the connection was lost")
            time.sleep(self._wait_seconds)
            yield content[place : place + self._piece_bytes]

    def _content(self, digest: str) -> bytes:
        return (self._blobs / digest.removeprefix("sha256:")).read_bytes()
