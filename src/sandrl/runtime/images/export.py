"""Writes an image of a store as an OCI layout, or as an archive that `docker load` takes."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path

from sandrl.errors import InputError, ServiceError, UnknownImageError
from sandrl.events import Emit, ImageProgress, ignore
from sandrl.runtime.guest.storage import remove_tree
from sandrl.runtime.images.compression import Plain
from sandrl.runtime.images.layouts import DOCKER_ARCHIVE, MANIFEST_TYPE, OCI, ROOT_FILES, FileReference
from sandrl.runtime.images.names import key_of
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.source import REFERENCE_NAME, Configuration, Manifest
from sandrl.runtime.images.store import ImageStore, StoredImage

_CHUNK = 1 << 20
_ARCHIVES = (".tar", ".tar.gz", ".tgz")
_OTHER_ARCHIVES = (".zst", ".bz2", ".xz", ".gz")

_Tell = Callable[[int, int], None]


def target_of(text: str) -> FileReference:
    """Where an image is written: `oci:DIR` or `docker-archive:FILE`; without a prefix, the end of the name decides.

    Raises:
        InputError: If there is something already, or the prefix is that of a root file system.
    """
    form = next((each for each in (OCI, DOCKER_ARCHIVE) if text.startswith(each)), "")
    path = Path(text.removeprefix(form)).absolute()
    if text.startswith(ROOT_FILES):
        raise InputError("an image can be written as oci:DIR or docker-archive:FILE only", path=text)
    if not form and text.endswith(_OTHER_ARCHIVES) and not text.endswith(_ARCHIVES):
        raise InputError("has another ending than an archive that can be written: .tar, .tar.gz or .tgz", path=text)
    if os.path.lexists(path):
        raise InputError("exists already", path=path, hint="name a new file or directory")
    return FileReference(form or (DOCKER_ARCHIVE if text.endswith(_ARCHIVES) else OCI), path, "")


def export(store: ImageStore, reference: str, target: FileReference, progress: Emit = ignore) -> StoredImage:
    """Writes an image to a new file or directory, which has its name only when it is complete.

    Raises:
        UnknownImageError: If there is no such image.
        ServiceError: If it cannot be written.
    """
    digest = store.digest_of(reference)
    if digest is None:
        raise UnknownImageError(reference)
    named = store.names.find(key_of(reference) or "")
    names = [named.name] if named is not None and not named.state else []
    new = target.path.with_name(f".{target.path.name}.{os.getpid()}")
    with store.lease(digest) as image:
        manifest, configuration = store.read(digest)

        def tell(part: int, size: int) -> None:
            progress(ImageProgress(str(target), False, part, len(manifest.layers), size, size))

        try:
            if target.form == OCI:
                _write_layout(store, digest, manifest, names, new, tell)
            else:
                _write_archive(store, (manifest, configuration), names, new, target.path.name, tell)
            new.rename(target.path)
        except OSError as error:
            message = f"{target.path}: cannot be written: {error.strerror}"
            raise ServiceError(message, hint="name a place with enough room where you may write") from error
        finally:
            if os.path.isdir(new):
                remove_tree(str(new))
            with suppress(OSError):
                new.unlink()
    return image


def _write_layout(
    store: ImageStore, digest: str, manifest: Manifest, names: list[str], directory: Path, tell: _Tell
) -> None:
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    content = store.manifest_bytes(digest)
    (blobs / digest.removeprefix("sha256:")).write_bytes(content)
    for part, each in enumerate((manifest.config, *manifest.layers)):
        shutil.copyfile(store.contents.blob(each.digest), blobs / each.digest.removeprefix("sha256:"))
        if part:
            tell(part, each.size)
    descriptor = {
        "mediaType": json.loads(content).get("mediaType") or MANIFEST_TYPE,
        "digest": digest,
        "size": len(content),
    }
    tags = [{"annotations": {REFERENCE_NAME: name}} for name in names] or [{}]
    index = {"schemaVersion": 2, "manifests": [{**descriptor, **tag} for tag in tags]}
    (directory / "index.json").write_text(json.dumps(index))
    (directory / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))


def _write_archive(
    store: ImageStore,
    image: tuple[Manifest, Configuration],
    names: list[str],
    path: Path,
    called: str,
    tell: _Tell,
) -> None:
    manifest, configuration = image
    config_name = f"{manifest.config.digest.removeprefix('sha256:')}.json"
    layer_names = [f"{diff_id.removeprefix('sha256:')}.tar" for diff_id in configuration.rootfs.diff_ids]
    written: set[str] = set()
    with tarfile.open(path, "w:gz" if called.endswith("gz") else "w") as archive:
        for part, (layer, name) in enumerate(zip(manifest.layers, layer_names, strict=True), 1):
            if name not in written:
                written.add(name)
                _add_layer(archive, name, store.contents.blob(layer.digest))
            tell(part, layer.size)
        _add(archive, config_name, store.contents.blob(manifest.config.digest).read_bytes())
        # An image whose name has a digest has no tag to be loaded by.
        tags = [name for name in names if not parse_reference(name).digest]
        _add(
            archive,
            "manifest.json",
            json.dumps([{"Config": config_name, "RepoTags": tags, "Layers": layer_names}]).encode(),
        )


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_member(name, len(content)), BytesIO(content))


def _add_layer(archive: tarfile.TarFile, name: str, blob: Path) -> None:
    # A member begins with its size, so a compressed layer is read twice.
    with blob.open("rb") as file:
        plain = Plain(file)
        size = sum(len(chunk) for chunk in iter(lambda: plain.read(_CHUNK), b""))
        file.seek(0)
        archive.addfile(_member(name, size), _Readable(Plain(file)))


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


class _Readable(BytesIO):
    def __init__(self, plain: Plain) -> None:
        super().__init__()
        self._plain = plain

    def read(self, size: int | None = -1, /) -> bytes:
        parts, left = [], size or 0
        while left > 0 and (chunk := self._plain.read(left)):
            parts.append(chunk)
            left -= len(chunk)
        return b"".join(parts)
