"""Images in files: OCI layouts, the archives of `docker save`, and root file systems without a manifest."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from sandrl.errors import InputError
from sandrl.runtime.images.archive import Archive, ArchiveError
from sandrl.runtime.images.compression import suffix_of
from sandrl.runtime.images.members import ArchiveMembers, DirectoryMembers, Members, open_file
from sandrl.runtime.images.source import (
    MOST_MANIFEST_BYTES,
    REFERENCE_NAME,
    Descriptor,
    Document,
    Index,
    Source,
    architecture,
    read_document,
    resolve,
)
from sandrl.runtime.images.unpack import Limits, Measured

OCI, DOCKER_ARCHIVE, ROOT_FILES = "oci:", "docker-archive:", "rootfs:"

DOCKERFILE = "dockerfile:"
"""The prefix of a directory from whose Dockerfile an image is built."""

FORMS = (OCI, DOCKER_ARCHIVE, ROOT_FILES)
"""The prefixes of images in files."""

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIGURATION_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"

_Each = TypeVar("_Each")
_SHOWN_NAMES = 10
_SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONTAINER_NAMES = (REFERENCE_NAME, "io.containerd.image.name")
_FIRST_OF_IMAGE = re.compile(
    rb"(?:\./)?(?:[0-9a-f]{64}(?:\.tar|\.json)?(?:/.*)?|blobs(?:/.*)?|[a-z-]+\.json|oci-layout)"
)


class _SavedImage(Document):
    # An entry of the manifest.json of `docker save`.
    configuration: str = Field(alias="Config")
    names: tuple[str, ...] | None = Field(None, alias="RepoTags")
    layers: tuple[str, ...] = Field(alias="Layers")


@dataclass(frozen=True, slots=True)
class FileReference:
    """An image in a file or a directory.

    Attributes:
        form: `oci:`, `docker-archive:` or `rootfs:`.
        tag: Which of several images; empty for the only one.
    """

    form: str
    path: Path
    tag: str

    def __str__(self) -> str:
        return f"{self.form}{self.path}{f':{self.tag}' if self.tag else ''}"

    def state(self) -> str:
        """Changes when the file changes.

        Raises:
            InputError: If it cannot be found.
        """
        path = self.path / "index.json" if self.path.is_dir() else self.path
        try:
            found = path.stat()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def parse_file_reference(text: str) -> FileReference | None:
    """Reads `oci:DIR[:TAG]`, `docker-archive:FILE[:NAME]` or `rootfs:FILE`; None if it begins with none of them."""
    form = next((each for each in FORMS if text.startswith(each)), None)
    if form is None:
        return None
    place, tag = text.removeprefix(form), ""
    if form != ROOT_FILES:
        # A path may have colons, and so may a name.
        while not os.path.exists(place) and ":" in place:
            place, _, more = place.rpartition(":")
            tag = f"{more}:{tag}" if tag else more
        if not os.path.exists(place):
            place, tag = text.removeprefix(form), ""
    return FileReference(form, Path(place).absolute(), tag)


def detect_form(path: Path) -> str:
    """The prefix that fits the content of a file or directory.

    Raises:
        InputError: If it cannot be read, or is no archive.
    """
    if (path / "index.json").exists():
        return OCI
    _check_is_file(path)
    with open_file(path) as file:
        first = next(iter(Archive(Measured(file, Limits().most_bytes))), None)
        if first is None:
            raise ArchiveError("is an archive without files")
    return DOCKER_ARCHIVE if _FIRST_OF_IMAGE.fullmatch(first.name) else ROOT_FILES


@contextmanager
def open_source(reference: FileReference, scratch: Path | None = None) -> Iterator[Source]:
    """Opens an image in a file; `scratch` is where a compressed archive may be unpacked.

    Raises:
        InputError: If it cannot be read, or has no such image.
    """
    described, path = str(reference), reference.path
    if reference.form == ROOT_FILES:
        _check_is_file(path)
        yield RootFiles(path, described)
    elif path.is_dir():
        yield OciLayout(DirectoryMembers(path), reference.tag, described)
    else:
        with closing(ArchiveMembers(path, scratch)) as members:
            is_saved = reference.form == DOCKER_ARCHIVE and members.has("manifest.json")
            yield (DockerArchive if is_saved else OciLayout)(members, reference.tag, described)


class OciLayout:
    """An OCI layout: a directory, or an archive of one."""

    def __init__(self, members: Members, tag: str, described: str) -> None:
        self._members = members
        self._tag = tag
        self._described = described

    def describe(self) -> str:
        return self._described

    def manifest(self) -> bytes:
        index = read_document(Index, self._members.read("index.json", MOST_MANIFEST_BYTES), self._described)
        # An image may have several tags.
        images = index.manifests if self._tag else tuple({each.digest: each for each in index.manifests}.values())
        chosen = _only(images, _tags_of, self._tag, self._described)
        content = Index(manifests=chosen).model_dump_json(by_alias=True, exclude_none=True)
        return resolve(content.encode(), self._read, self._described)

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        return self._members.pieces(_blob_name(digest), offset)

    def _read(self, descriptor: Descriptor) -> bytes:
        content = self._members.read(_blob_name(descriptor.digest), MOST_MANIFEST_BYTES)
        if digest_of(content) != descriptor.digest:
            raise InputError(f"is damaged: its manifest is not {descriptor.digest}", path=self._described)
        return content


class DockerArchive:
    """An archive of `docker save`, for which a manifest is made."""

    def __init__(self, members: ArchiveMembers, tag: str, described: str) -> None:
        self._members = members
        self._tag = tag
        self._described = described
        self._names: dict[str, str] = {}

    def describe(self) -> str:
        return self._described

    def manifest(self) -> bytes:
        content = self._members.read("manifest.json", MOST_MANIFEST_BYTES)
        try:
            saved = TypeAdapter(tuple[_SavedImage, ...]).validate_json(content)
        except ValidationError:
            raise InputError("is damaged: its manifest.json is none of `docker save`", path=self._described) from None
        (image,) = _only(saved, lambda each: each.names or (), self._tag, self._described)[:1]
        return make_manifest(
            self._describe(image.configuration, CONFIGURATION_TYPE),
            [self._describe(each, LAYER_TYPE) for each in image.layers],
        )

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        return self._members.pieces(self._names[digest], offset)

    def _describe(self, name: str, media_type: str) -> Descriptor:
        found = self._members.find(name)
        self._names[found.digest] = name
        media_type += suffix_of(found.head)
        return Descriptor(digest=found.digest, size=found.size, media_type=media_type)


class RootFiles:
    """A root file system in an archive, for which a manifest and a configuration are made."""

    def __init__(self, path: Path, described: str) -> None:
        self._path = path
        self._described = described
        self._configuration = b""

    def describe(self) -> str:
        return self._described

    def manifest(self) -> bytes:
        with open_file(self._path) as file:
            head = file.read(8)
            size = file.seek(0, os.SEEK_END)
            if size > Limits().most_bytes:
                raise ArchiveError(f"has more than {Limits().most_bytes >> 30} GiB")
            file.seek(0)
            plain = Measured(file, Limits().most_bytes)
            for _ in Archive(plain, needs_end=True):
                pass
            self._configuration = json.dumps(_configuration(plain.finish()), sort_keys=True).encode()
            file.seek(0)
            digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        layer = Descriptor(digest=digest, size=size, media_type=LAYER_TYPE + suffix_of(head))
        configuration = Descriptor(
            digest=digest_of(self._configuration), size=len(self._configuration), media_type=CONFIGURATION_TYPE
        )
        return make_manifest(configuration, [layer])

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        if digest == digest_of(self._configuration):
            yield self._configuration[offset:]
            return
        with open_file(self._path) as file:
            file.seek(offset)
            yield from iter(lambda: file.read(1 << 20), b"")


def make_manifest(configuration: Descriptor, layers: Sequence[Descriptor]) -> bytes:
    """A manifest of these blobs, always of the same bytes."""
    plain = {"by_alias": True, "exclude_none": True}
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": configuration.model_dump(**plain),  # type: ignore[arg-type]
        "layers": [each.model_dump(**plain) for each in layers],  # type: ignore[arg-type]
    }
    return json.dumps(document, separators=(",", ":")).encode()


def digest_of(content: bytes) -> str:
    """`sha256:` and the digest of a content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _configuration(diff_id: str) -> dict[str, object]:
    return {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": [_SEARCH_PATH]},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    }


def _check_is_file(path: Path) -> None:
    if path.is_dir():
        hint = f"to import a root file system, pack it: tar -C {shlex.quote(str(path))} -cf root.tar ."
        raise InputError("is a directory without an OCI layout (index.json)", path=path, hint=hint)


def _blob_name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _tags_of(descriptor: Descriptor) -> Sequence[str]:
    known = descriptor.annotations or {}
    return [known[name] for name in _CONTAINER_NAMES if name in known]


def _only(
    images: Sequence[_Each], names_of: Callable[[_Each], Sequence[str]], tag: str, described: str
) -> tuple[_Each, ...]:
    # More than one only if they are one image for several platforms.
    names = [name for each in images for name in names_of(each)]
    fitting = tuple(each for each in images if not tag or any(_is_meant(name, tag) for name in names_of(each)))
    hint = f"it has: {', '.join(names[:_SHOWN_NAMES])}" if names else None
    example = f"for example {described}:{names[0]}; {hint}" if names else None
    if not fitting:
        raise InputError("has no image of this name" if tag else "has no image", path=described, hint=hint)
    if len(fitting) > 1 and len({name for each in fitting for name in names_of(each)}) > 1:
        raise InputError("has several images: name one, after a colon", path=described, hint=example)
    return fitting


def _is_meant(name: str, tag: str) -> bool:
    return name == tag or name.endswith((f":{tag}", f"/{tag}"))
