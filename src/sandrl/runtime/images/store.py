"""The images of a user: blobs named by digest, names, and layers that are unpacked once.

An image is in the store when its manifest is, which is written last. `removal.py` removes blobs and layers that no
manifest names and no process holds a lock of.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sandrl.errors import InputError, UnknownImageError, UsageError
from sandrl.events import Emit, ImageProgress, ImageReading, ignore
from sandrl.files import read_regular, write_whole
from sandrl.quantities import bytes_of
from sandrl.runtime.images import locks
from sandrl.runtime.images.contents import Contents, Tell, layer_name
from sandrl.runtime.images.layouts import FileReference, digest_of, open_source, parse_file_reference
from sandrl.runtime.images.names import NamedImage, Names, key_of, named
from sandrl.runtime.images.references import DIGEST
from sandrl.runtime.images.source import (
    MOST_LAYERS,
    MOST_MANIFEST_BYTES,
    Configuration,
    Descriptor,
    Manifest,
    Source,
    architecture,
    read_document,
)
from sandrl.runtime.images.transfers import obtain_blobs
from sandrl.settings import Settings

_LEAST_DIGITS, _DIGITS = 6, frozenset("0123456789abcdef")


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
        most_bytes: What all images may take; when one is added, those that were not used for longest are removed.
    """

    def __init__(self, root: Path, most_bytes: int | None = None) -> None:
        self.root = root
        self._most_bytes = most_bytes
        self.contents = Contents(root, keeps_owners=os.geteuid() == 0)
        self.layers = self.contents.layers
        self.manifests = root / "manifests"
        self.names = Names(root / "names")
        self.steps, self.caches = root / "steps", root / "caches"
        self.writing = self.contents.locks / "writing"

    def find(self, reference: str) -> StoredImage | None:
        """The image of a name, a digest, `NAME@sha256:…`, or a file that was imported and has not changed since.

        Returns None if there is none. Its layers may be missing until `open`.
        """
        digest = self.digest_of(reference)
        try:
            return None if digest is None else self._load(digest)
        except (OSError, InputError):
            return None

    def digest_of(self, reference: str) -> str | None:
        """The digest of the manifest that a reference means; None if there is none."""
        if (key := key_of(reference)) and (found := self.names.find(key)) is not None:
            return found.digest if found.is_current() else None
        _, _, digest = reference.rpartition("@")
        digits = digest.removeprefix("sha256:")
        if len(digits) < _LEAST_DIGITS or not _DIGITS.issuperset(digits):
            return None
        fitting = [each for each in self.digests() if each.startswith(f"sha256:{digits}")]
        return fitting[0] if len(fitting) == 1 else None

    def digests(self) -> list[str]:
        """The digests of the manifests of all images.

        Raises:
            UsageError: If the store cannot be read.
        """
        try:
            names = os.listdir(self.manifests)
        except FileNotFoundError:
            return []
        except OSError as error:
            hint = "set SANDRL_CACHE_DIR to a directory that belongs to you"
            raise UsageError(f"{self.manifests}: cannot be read: {error.strerror}", hint=hint) from error
        return [digest for name in names if DIGEST.fullmatch(digest := f"sha256:{name}")]

    def open(self, digest: str, progress: Emit = ignore) -> StoredImage:
        """The image of a digest, with all of its layers unpacked.

        Raises:
            UnknownImageError: If the store does not have it.
        """
        with self.lease(digest, progress) as image:
            return image

    @contextmanager
    def lease(self, digest: str, progress: Emit = ignore) -> Iterator[StoredImage]:
        """Opens an image that no other process removes until the end of the `with` block.

        Raises:
            UnknownImageError: If the store does not have it.
        """
        if not DIGEST.fullmatch(digest):
            raise UnknownImageError(digest)
        self.make()
        descriptor = locks.take(self.lease_of(digest), exclusive=False)
        try:
            try:
                image = self._load(digest)
                os.utime(self.manifest_path(digest))
            except FileNotFoundError:
                raise UnknownImageError(digest) from None
            with ExitStack() as held:
                self._unpack_all(self.read(digest), held, digest, progress)
            yield image
        finally:
            os.close(descriptor)

    def add(self, source: Source, name: str | None, progress: Emit = ignore, *, at_once: int = 1) -> StoredImage:
        """Stores an image and unpacks its layers; a name then means this image.

        With `at_once`, so many threads read blobs of the source and tell of their progress.

        Raises:
            SandrlError: If the source cannot be read, or its content is damaged, hostile or of another architecture.
        """
        self.make()
        described = source.describe()
        given = None if name is None else named(name, "")
        content = source.manifest()
        manifest = read_document(Manifest, content, described)
        if len(manifest.layers) > MOST_LAYERS:
            raise InputError(f"has {len(manifest.layers)} layers, more than {MOST_LAYERS}", path=described)
        with ExitStack() as held:
            configuration = self._add_configuration(source, manifest, held)

            def teller(part: int, each: Descriptor) -> Tell:
                return _teller(progress, described, False, part, len(manifest.layers), each.size)

            obtain_blobs(self.contents, source, manifest.layers, held, teller, at_once=at_once)
            self._unpack_all((manifest, configuration), held, described, progress)
            digest = digest_of(content)
            self._name(digest, content, given)
            image = self._load(digest)
        self._tidy(digest)
        return image

    def give_name(self, digest: str, name: str) -> None:
        """Gives an image that is leased a name; what had the name loses it.

        Raises:
            InputError: If it cannot be a name.
        """
        self._name(digest, self.manifest_bytes(digest), named(name, digest))

    def add_file(self, text: str, progress: Emit = ignore) -> StoredImage:
        """The image of `oci:DIR[:TAG]`, `docker-archive:FILE` or `rootfs:FILE`, imported unless it is stored already.

        Raises:
            SandrlError: As `add`.
        """
        found = self.find(text)
        reference = parse_file_reference(text)
        if found is not None or reference is None:
            return found or self._unknown(text)
        return self.import_file(reference, text, progress)

    def import_file(self, reference: FileReference, name: str, progress: Emit = ignore) -> StoredImage:
        """Stores the image of a file under a name.

        Raises:
            SandrlError: As `add`.
        """
        named(name, "")  # before a long archive is read
        progress(ImageReading(str(reference.path)))
        with open_source(reference, self.scratch()) as source:
            return self.add(source, name, progress)

    def lease_of(self, digest: str) -> Path:
        """The file whose lock those share who use an image."""
        return self.contents.locks / f"used-{digest.removeprefix('sha256:')}"

    def manifest_path(self, digest: str) -> Path:
        return self.manifests / digest.removeprefix("sha256:")

    def make(self) -> None:
        """Makes the directories that are missing.

        Raises:
            SandrlError: If one cannot be made, or others can write to the store.
        """
        self.contents.make()
        for directory in (self.manifests, self.names.directory, self.steps, self.caches):
            directory.mkdir(mode=0o700, exist_ok=True)

    def scratch(self) -> Path:
        """Where a compressed archive may be unpacked to read it.

        Raises:
            SandrlError: As `make`.
        """
        self.make()
        return self.contents.partial

    def read(self, digest: str) -> tuple[Manifest, Configuration]:
        """The manifest and the configuration of an image.

        Raises:
            FileNotFoundError: If the store does not have it.
            InputError: If it is damaged.
        """
        manifest = read_document(Manifest, self.manifest_bytes(digest), digest)
        content = read_regular(self.contents.blob(manifest.config.digest), MOST_MANIFEST_BYTES)
        return manifest, read_document(Configuration, content, digest)

    def manifest_bytes(self, digest: str) -> bytes:
        return read_regular(self.manifest_path(digest), MOST_MANIFEST_BYTES)

    def _load(self, digest: str) -> StoredImage:
        manifest, configuration = self.read(digest)
        blobs = {each.digest: each.size for each in (manifest.config, *manifest.layers)}
        # An overlay cannot have a layer twice, and the upper one of two decides.
        names = [layer_name(each) for each in reversed(configuration.rootfs.diff_ids)]
        layers = tuple(reversed(dict.fromkeys(names)))
        size = sum(blobs.values()) + self.manifest_path(digest).stat().st_size
        return StoredImage(digest, _config_of(configuration), layers, size)

    def _add_configuration(self, source: Source, manifest: Manifest, held: ExitStack) -> Configuration:
        described = source.describe()
        if manifest.config.size > MOST_MANIFEST_BYTES:
            raise InputError(f"its configuration is larger than {MOST_MANIFEST_BYTES >> 20} MiB", path=described)
        path = self.contents.obtain_blob(source, manifest.config, held, lambda done: None)
        configuration = read_document(Configuration, path.read_bytes(), described)
        if len(configuration.rootfs.diff_ids) != len(manifest.layers):
            raise InputError("its configuration and its manifest have other numbers of layers", path=described)
        made_for = f"{configuration.os or 'linux'}/{configuration.architecture or architecture()}"
        if made_for != f"linux/{architecture()}":
            raise InputError(f"is for {made_for} and cannot run here (linux/{architecture()})", path=described)
        return configuration

    def _unpack_all(
        self, image: tuple[Manifest, Configuration], held: ExitStack, described: str, progress: Emit
    ) -> None:
        manifest, configuration = image
        below: list[Path] = []
        for part, (layer, diff_id) in enumerate(zip(manifest.layers, configuration.rootfs.diff_ids, strict=True), 1):
            tell = _teller(progress, described, True, part, len(manifest.layers), layer.size)
            blob = self.contents.blob(layer.digest)
            below.insert(0, self.contents.obtain_layer(blob, diff_id, below, held, tell, described))

    def _name(self, digest: str, content: bytes, given: NamedImage | None) -> None:
        # Whoever removes images waits until the manifest names the blobs that are held.
        descriptor = locks.take(self.writing, exclusive=False)
        try:
            write_whole(self.manifest_path(digest), content, durable=True)
            if given is not None:
                self.names.keep(given.model_copy(update={"digest": digest}))
        finally:
            os.close(descriptor)

    def _tidy(self, added: str) -> None:
        from sandrl.runtime.images.removal import remove_leftovers, shrink

        with suppress(OSError):
            remove_leftovers(self)
        if self._most_bytes is not None:
            shrink(self, self._most_bytes, added)

    def _unknown(self, text: str) -> StoredImage:
        raise UnknownImageError(text)


def open_store(settings: Settings) -> ImageStore:
    """The store of the user.

    Raises:
        UsageError: If its limit is no size.
    """
    try:
        most_bytes = bytes_of(settings.images_size)
    except ValueError as error:
        raise UsageError(f"SANDRL_IMAGES_SIZE: {error}") from error
    return ImageStore(settings.cache_dir / "images", most_bytes if isinstance(most_bytes, int) else None)


def _teller(progress: Emit, described: str, is_unpacking: bool, part: int, parts: int, total: int) -> Tell:
    told = -1

    def tell(done: int) -> None:
        nonlocal told
        if done != told:
            told = done
            progress(ImageProgress(described, is_unpacking, part, parts, done, total))

    return tell


def _config_of(configuration: Configuration) -> ImageConfig:
    said = configuration.config
    environment = (each.partition("=") for each in (said and said.environment) or ())
    return ImageConfig(
        environment=tuple((name, value) for name, _, value in environment),
        directory=(said and said.directory) or "",
        user=(said and said.user) or "",
        entrypoint=(said and said.entrypoint) or (),
        command=(said and said.command) or (),
        architecture=configuration.architecture,
    )
