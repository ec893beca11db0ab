"""An image of the store with one more layer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandrl.files import read_regular
from sandrl.runtime.images.layouts import CONFIGURATION_TYPE, LAYER_TYPE, digest_of, make_manifest
from sandrl.runtime.images.source import MOST_MANIFEST_BYTES, Descriptor, Manifest, read_document
from sandrl.runtime.images.store import ImageStore

_CHUNK_BYTES = 1 << 20


class DerivedImage:
    """The source of an image that is made of a stored one, which must be leased, and a layer.

    Args:
        layer: A tar archive, not compressed.
        created_by: What made it, for the history of the image.
    """

    def __init__(self, store: ImageStore, base: str, layer: Path, created_by: str) -> None:
        self._store = store
        self._base = read_document(Manifest, store.manifest_bytes(base), base)
        self._layer = layer
        self._created_by = created_by
        self._configuration = b""
        self._layer_digest = ""

    def describe(self) -> str:
        return self._created_by

    def manifest(self) -> bytes:
        with self._layer.open("rb") as file:
            self._layer_digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        self._configuration = json.dumps(self._configured()).encode()
        size = self._layer.stat().st_size
        layer = Descriptor(digest=self._layer_digest, size=size, media_type=LAYER_TYPE)
        configuration = Descriptor(
            digest=digest_of(self._configuration), size=len(self._configuration), media_type=CONFIGURATION_TYPE
        )
        return make_manifest(configuration, [*self._base.layers, layer])

    def _configured(self) -> dict[str, Any]:
        content = read_regular(self._store.contents.blob(self._base.config.digest), MOST_MANIFEST_BYTES)
        document: dict[str, Any] = json.loads(content)
        document["rootfs"] = {"type": "layers", "diff_ids": [*document["rootfs"]["diff_ids"], self._layer_digest]}
        created = datetime.now(UTC).isoformat()
        document["created"] = created
        entry = {"created": created, "created_by": self._created_by}
        document["history"] = [*(document.get("history") or ()), entry]
        return document

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        if digest == digest_of(self._configuration):
            yield self._configuration[offset:]
            return
        path = self._layer if digest == self._layer_digest else self._store.contents.blob(digest)
        with path.open("rb") as file:
            file.seek(offset)
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
