"""Names of images, as registries and users write them: `python:3.13-slim`, `HOST/NAME@sha256:…`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sandrl.errors import InputError
from sandrl.runtime.images.layouts import DOCKERFILE, FORMS

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
"""The digest of a manifest, a configuration or a layer."""

_HUB = "docker.io"
_DOMAIN = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*|\[[0-9a-fA-F:]+\])(?::\d{1,5})?")
_PATH = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_MOST_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of an image.

    Attributes:
        host: The registry, `docker.io` unless one is named; with its port.
        repository: The path in the registry, such as `library/python`.
        tag: `latest` unless the name has a tag or a digest; empty if it has only a digest.
        digest: `sha256:` and 64 hexadecimal digits; empty unless the name has one. A tag beside it has no effect.
    """

    host: str
    repository: str
    tag: str
    digest: str

    @property
    def key(self) -> str:
        """The same text for all spellings of a name."""
        return f"{self.host}/{self.repository}{f'@{self.digest}' if self.digest else f':{self.tag}'}"

    def __str__(self) -> str:
        hub = self.repository.removeprefix("library/")
        name = hub if self.host == _HUB else f"{self.host}/{self.repository}"
        return name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


def parse_reference(text: str) -> Reference:
    """Reads the name of an image.

    Raises:
        InputError: If it is none.
    """
    if text.startswith((*FORMS, DOCKERFILE)):
        raise _unusable(text, f"it begins with {text.partition(':')[0]}:, which names a file")
    name, at, digest = text.partition("@")
    head, slash, rest = name.partition("/")
    is_host = bool(slash) and (any(each in head for each in ".:") or head == "localhost" or head != head.lower())
    host, path = (head, rest) if is_host else (_HUB, name)
    path, colon, tag = path.partition(":")
    if at and not DIGEST.fullmatch(digest):
        raise _unusable(text, "its digest is not sha256: and 64 hexadecimal digits")
    if colon and not _TAG.fullmatch(tag):
        raise _unusable(text, "its tag has other characters than letters, digits, `_`, `.` and `-`")
    if len(name) > _MOST_CHARACTERS or not _DOMAIN.fullmatch(host) or not _PATH.fullmatch(path):
        raise _unusable(text, "lower-case letters and digits, with `.`, `_`, `-` and `/` between them, are needed")
    host = _HUB if host == "index.docker.io" else host
    if host == _HUB and "/" not in path:
        path = f"library/{path}"
    return Reference(host, path, tag or ("" if digest else "latest"), digest)


def _unusable(text: str, reason: str) -> InputError:
    return InputError(f"{text!r} is not the name of an image: {reason}", hint="write NAME:TAG or HOST/NAME@sha256:…")
