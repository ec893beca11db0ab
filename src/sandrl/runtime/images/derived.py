"""An image that is made of a stored one: with one more layer, with another configuration, or both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandrl.errors import UnknownImageError
from sandrl.files import read_regular
from sandrl.runtime.images.layouts import CONFIGURATION_TYPE, LAYER_TYPE, digest_of, make_manifest
from sandrl.runtime.images.source import MOST_MANIFEST_BYTES, Descriptor, Manifest, architecture, read_document
from sandrl.runtime.images.store import ImageStore

_CHUNK_BYTES = 1 << 20


class DerivedImage:
    """The source of an image that is made of a stored one, which must be leased.

    Args:
        base: The digest of the stored image; None for an image without layers.
        layer: A tar archive; None for no more layer.
        diff_id: The digest of its plain content, if it is compressed with gzip; empty if it is not.
        created_by: What made it, for the history of the image.
        changes: Fields of the configuration that are replaced.
    """

    def __init__(
        self,
        store: ImageStore,
        base: str | None,
        layer: Path | None,
        created_by: str,
        changes: Mapping[str, Any] | None = None,
        diff_id: str = "",
    ) -> None:
        self._store = store
        self._base: Sequence[Descriptor] = ()
        self._document: dict[str, Any] = {"architecture": architecture(), "os": "linux", "rootfs": {"diff_ids": []}}
        if base is not None:
            manifest = read_document(Manifest, store.manifest_bytes(base), base)
            self._base = manifest.layers
            self._document = json.loads(read_regular(store.contents.blob(manifest.config.digest), MOST_MANIFEST_BYTES))
        self._layer = layer
        self._diff_id = diff_id
        self._created_by = created_by
        self._changes = changes or {}
        self._configuration = b""
        self._layer_digest = ""

    def describe(self) -> str:
        return self._created_by

    def manifest(self) -> bytes:
        layers = [*self._base]
        if self._layer is not None:
            with self._layer.open("rb") as file:
                self._layer_digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
            size = self._layer.stat().st_size
            layers.append(
                Descriptor(
                    digest=self._layer_digest, size=size, media_type=LAYER_TYPE + ("+gzip" if self._diff_id else "")
                )
            )
        self._configuration = json.dumps(self._configured()).encode()
        configuration = Descriptor(
            digest=digest_of(self._configuration), size=len(self._configuration), media_type=CONFIGURATION_TYPE
        )
        return make_manifest(configuration, layers)

    def _configured(self) -> dict[str, Any]:
        document = self._document
        added = [self._diff_id or self._layer_digest] if self._layer is not None else []
        document["rootfs"] = {"type": "layers", "diff_ids": [*document["rootfs"]["diff_ids"], *added]}
        # A state is the same image whenever it is made.
        created = (datetime.fromtimestamp(0, UTC) if self._diff_id else datetime.now(UTC)).isoformat()
        document["created"] = created
        entry = {"created": created, "created_by": self._created_by}
        known = document.get("history")
        before = known if isinstance(known, list) else []
        document["history"] = [*before, entry if added else {**entry, "empty_layer": True}]
        return {**document, **self._changes}

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        if digest == digest_of(self._configuration):
            yield self._configuration[offset:]
            return
        is_new = self._layer is not None and digest == self._layer_digest
        path = self._layer if is_new and self._layer else self._store.contents.blob(digest)
        with path.open("rb") as file:
            file.seek(offset)
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")


def add_layers(store: ImageStore, image: str, layers: Sequence[tuple[str, Path]]) -> str:
    """Stores an image with more layers, without a name; returns what means it.

    Args:
        layers: The lowest first: the digest of the plain content of each, and its file, compressed with gzip.

    Raises:
        UnknownImageError: If the image is not stored any more.
        SandrlError: If a layer is damaged, or cannot be stored.
    """
    digest = store.digest_of(image)
    if digest is None:
        raise UnknownImageError(image)
    for diff_id, path in layers:
        with store.lease(digest):
            digest = store.add(DerivedImage(store, digest, path, "state of a sandbox", diff_id=diff_id), None).digest
    return f"state@{digest}"
