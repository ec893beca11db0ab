"""The images of a user: blobs named by digest, names, and layers that are unpacked once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandrl.events import Emit, ignore
from sandrl.runtime.images.source import Source


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says about its programs.

    Attributes:
        directory: The working directory; empty if none is set.
        user: `NAME`, `UID`, `NAME:GROUP` or `UID:GID`; empty for user 0.
        architecture: As registries name it, such as `amd64`; empty if it is not known.
    """

    environment: tuple[tuple[str, str], ...]
    directory: str
    user: str
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    architecture: str


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image of the store.

    Attributes:
        digest: `sha256:` and the digest of its manifest.
        layers: Names of directories below `ImageStore.layers`, the lowest first, as an overlay takes them.
        size: Bytes of its blobs, as they are stored (usually compressed).
    """

    digest: str
    config: ImageConfig
    layers: tuple[str, ...]
    size: int


class ImageStore:
    """The images of a user.

    Processes may use it at once, and be killed at any moment.

    Args:
        root: The directory of the store: `Settings.cache_dir / "images"`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layers = root / "layers"

    def find(self, reference: str) -> StoredImage | None:
        """The image of a name, a digest, `NAME@sha256:…`, or a file that was imported and has not changed since.

        Returns None if there is none. Its layers may be missing until `open`.
        """
        raise NotImplementedError

    def open(self, digest: str, progress: Emit = ignore) -> StoredImage:
        """The image of a digest, with all of its layers unpacked.

        Raises:
            UnknownImageError: If the store does not have it.
        """
        raise NotImplementedError

    def add(self, source: Source, name: str | None, progress: Emit = ignore) -> StoredImage:
        """Stores an image and unpacks its layers; a name then means this image.

        Raises:
            SandrlError: If the source cannot be read, or its content is damaged, hostile or of another architecture.
        """
        raise NotImplementedError

    @contextmanager
    def lease(self, digest: str) -> Iterator[StoredImage]:
        """Opens an image that no other process removes until the end of the `with` block.

        Raises:
            UnknownImageError: If the store does not have it.
        """
        yield self.open(digest)
