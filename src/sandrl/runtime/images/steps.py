"""The finished steps of builds: a record names the image of a step by a key of all that goes into the step.

A record is written after its image. A build locks a step while it makes it; other builds that need it wait.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sandrl.files import read_regular, write_whole
from sandrl.runtime.images import locks
from sandrl.runtime.images.references import DIGEST
from sandrl.runtime.images.store import ImageStore

_MOST_BYTES = 1 << 10


class Steps:
    """The steps of builds in a store."""

    def __init__(self, store: ImageStore) -> None:
        self._store = store
        self.directory = store.steps

    def find(self, key: str) -> str | None:
        """The digest of the image of a step; None if it is not stored."""
        digest = _read(self.directory / key)
        return digest if digest is not None and self._store.find(digest) is not None else None

    def keep(self, key: str, digest: str) -> None:
        """Notes what a step has led to."""
        write_whole(self.directory / key, digest.encode(), durable=True)

    @contextmanager
    def making(self, key: str) -> Iterator[None]:
        """Waits until no other build makes a step."""
        descriptor = locks.take(self._store.contents.locks / f"steps-{key}", exclusive=True)
        try:
            yield
        finally:
            os.close(descriptor)


def key_of_step(*parts: object) -> str:
    """The key of all that goes into a step: values that JSON has."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def digests_of_steps(store: ImageStore) -> set[str]:
    """The images that steps have led to."""
    return {digest for path in _records(store) if (digest := _read(path)) is not None}


def forget_steps(store: ImageStore) -> None:
    """Removes the records whose images are gone."""
    known = set(store.digests())
    for path in _records(store):
        if _read(path) not in known:
            path.unlink(missing_ok=True)


def _records(store: ImageStore) -> list[Path]:
    with suppress(FileNotFoundError):
        return [store.steps / name for name in os.listdir(store.steps) if not name.startswith(".")]
    return []


def _read(path: Path) -> str | None:
    try:
        text = read_regular(path, _MOST_BYTES, follow=False).decode("ascii")
    except (OSError, ValueError):
        return None
    return text if DIGEST.fullmatch(text) else None
