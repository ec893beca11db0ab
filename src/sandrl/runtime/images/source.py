"""Where an image comes from: the protocol of all sources, and what manifests, indexes and configurations say.

Docker's and OCI's documents differ in their media types only, so the fields decide what a document is.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandrl.errors import InputError

MOST_MANIFEST_BYTES = 4 << 20
"""No manifest, index or configuration is larger."""

MOST_LAYERS = 127
"""Docker's limit, and as many as the options of an overlay can name."""

REFERENCE_NAME = "org.opencontainers.image.ref.name"
"""The annotation of an OCI layout that has the tag of an image."""

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "arm",
    "i686": "386",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
}
_FOREIGN_VARIANTS = {"amd64": ("v2", "v3", "v4"), "arm": ("v8",)}
_MOST_INDEXES = 4
# The kernel takes no null characters.
_Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class Source(Protocol):
    """Where an image comes from: a registry, a directory or a file. The store verifies what a source gives."""

    def describe(self) -> str:
        """Names the source in messages, in a few words."""

    def manifest(self) -> bytes:
        """The manifest of the image for this machine; an index is resolved with `resolve`.

        Raises:
            SandrlError: If there is none, or it cannot be read.
        """

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        """The content of a blob from a byte on, in pieces; the iterator may be closed early.

        Raises:
            SandrlError: If it cannot be read.
        """


class Document(BaseModel):
    """Base of what images say as JSON; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Platform(Document):
    """What an image of an index runs on."""

    architecture: str = ""
    os: str = ""
    variant: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.os, self.architecture, self.variant)))


class Descriptor(Document):
    """A blob, as documents name it: its digest and its size in bytes."""

    digest: _Digest
    size: int = Field(ge=0)
    media_type: str = Field("", alias="mediaType")
    platform: Platform | None = None
    annotations: Mapping[str, str] | None = None


class Index(Document):
    """Manifests of one image for several platforms, or of several images (an OCI layout)."""

    manifests: tuple[Descriptor, ...]


class Manifest(Document):
    """The blobs of an image, the lowest layer first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class _Programs(Document):
    environment: tuple[_Text, ...] | None = Field(None, alias="Env")
    directory: _Text | None = Field(None, alias="WorkingDir")
    user: _Text | None = Field(None, alias="User")
    entrypoint: tuple[_Text, ...] | None = Field(None, alias="Entrypoint")
    command: tuple[_Text, ...] | None = Field(None, alias="Cmd")


class _RootFiles(Document):
    diff_ids: tuple[_Digest, ...]


class Configuration(Document):
    """The configuration blob of an image."""

    architecture: str = ""
    os: str = ""
    config: _Programs | None = None
    rootfs: _RootFiles


_Read = TypeVar("_Read", bound=Document)


def architecture() -> str:
    """The architecture of this machine, as registries name it."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def read_document(model: type[_Read], content: bytes, described: str) -> _Read:
    """Reads a manifest, an index or a configuration.

    Raises:
        InputError: If it is none.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"its {model.__name__.lower()} is damaged: {place}: {first['msg']}", path=described) from None


def choose_manifest(content: bytes, described: str, wanted: str = "") -> Descriptor | None:
    """The manifest for this machine, or a platform (`linux/amd64/v3`), that an index names; None if it is no index.

    Raises:
        InputError: If it names none for this machine.
    """
    if len(content) > MOST_MANIFEST_BYTES:
        raise InputError(f"its manifest is larger than {MOST_MANIFEST_BYTES >> 20} MiB", path=described)
    try:
        named = Index.model_validate_json(content).manifests
    except ValidationError:
        return None
    fitting = [each for each in named if each.platform is None or _fits(each.platform, wanted)]
    if fitting:
        return next((each for each in fitting if each.platform is not None), fitting[0])
    others = sorted({str(each.platform) for each in named if each.platform and each.platform.os != "unknown"})
    wanted = wanted or f"linux/{architecture()}"
    raise InputError(f"has no image for {wanted}, only for {', '.join(others) or 'none'}", path=described)


def resolve(content: bytes, fetch: Callable[[Descriptor], bytes], described: str, wanted: str = "") -> bytes:
    """The manifest for this machine, or a platform, that a document is, or names through indexes.

    Raises:
        InputError: If there is none.
    """
    for _ in range(_MOST_INDEXES):
        chosen = choose_manifest(content, described, wanted)
        if chosen is None:
            return content
        content = fetch(chosen)
    raise InputError(f"its indexes are nested more than {_MOST_INDEXES} deep", path=described)


def _fits(offered: Platform, wanted: str) -> bool:
    if wanted:
        return f"{offered}/".startswith(f"{wanted}/")
    own = architecture()
    # Variants beyond the first need a newer processor than every machine of the architecture has.
    return (offered.os, offered.architecture) == ("linux", own) and offered.variant not in _FOREIGN_VARIANTS.get(
        own, ()
    )
