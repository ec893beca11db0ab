"""The names of the images of a store, and the files that they were imported from on first use."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from pydantic import BaseModel, ValidationError

from sandrl.errors import InputError
from sandrl.files import read_regular, write_whole
from sandrl.runtime.images.layouts import DOCKERFILE, parse_file_reference
from sandrl.runtime.images.references import parse_reference

_MOST_BYTES = 16 << 10
_HOST = "library/host"
"""The repository that `host` and `host:3.11` would be, if they were no names of the system of this machine."""


class NamedImage(BaseModel):
    """A name of an image.

    Attributes:
        key: The same text for all spellings of the name.
        name: The name, or the file, as it is shown.
        digest: That of the manifest, `sha256:…`.
        state: What the file was like when it was imported; empty for a name.
    """

    key: str
    name: str
    digest: str
    state: str = ""

    def is_current(self) -> bool:
        """Whether the file is still what was imported; true for names."""
        reference = parse_file_reference(self.name) if self.state else None
        try:
            return reference is None or reference.state() == self.state
        except InputError:
            return False


class Names:
    """The names of a store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def find(self, key: str) -> NamedImage | None:
        return _read(self._path(key))

    def all(self) -> list[NamedImage]:
        """All names, in their order."""
        try:
            found = [_read(Path(entry.path)) for entry in os.scandir(self.directory) if entry.name.endswith(".json")]
        except FileNotFoundError:
            return []
        return sorted((each for each in found if each is not None), key=lambda each: each.name)

    def keep(self, named: NamedImage) -> None:
        """Gives an image a name; what had the name loses it."""
        write_whole(self._path(named.key), named.model_dump_json().encode(), durable=True)

    def remove(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def named(text: str, digest: str) -> NamedImage:
    """An image by a name or a file as users write it.

    Raises:
        InputError: If the text is none, or the file cannot be read.
    """
    if (place := _built(text)) is not None:
        return NamedImage(key=place, name=place, digest=digest)
    reference = parse_file_reference(text)
    if reference is not None:
        return NamedImage(key=str(reference), name=str(reference), digest=digest, state=reference.state())
    parsed = parse_reference(text)
    if parsed.repository == _HOST and not parsed.digest:
        raise InputError(
            f"{text!r} names the system of this machine, which an image would hide", hint="choose another name"
        )
    return NamedImage(key=parsed.key, name=str(parsed), digest=digest)


def key_of(text: str) -> str | None:
    """The key of a name or a file as users write it; None if it can be neither."""
    if (place := _built(text)) is not None:
        return place
    reference = parse_file_reference(text)
    try:
        return str(reference) if reference is not None else parse_reference(text).key
    except InputError:
        return None


def _built(text: str) -> str | None:
    place = text.removeprefix(DOCKERFILE)
    return f"{DOCKERFILE}{os.path.abspath(place)}" if place != text else None


def _read(path: Path) -> NamedImage | None:
    try:
        return NamedImage.model_validate_json(read_regular(path, _MOST_BYTES, follow=False))
    except (OSError, ValidationError):
        return None
