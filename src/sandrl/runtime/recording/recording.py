"""A recording: a directory with the answers of servers, by request, and their bodies, by digest.

An answer is in the recording when its file is, which is written last. Several processes may record into one directory,
and be killed at any moment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandrl.errors import InputError
from sandrl.files import open_regular, read_regular, write_whole
from sandrl.runtime.recording.request import Headers, Request, header_of, kept_headers, varies

_SCHEMA = 1
_MOST_ENTRY_BYTES = 1 << 20
_MOST_VARIANTS = 64
_PARTIAL_SECONDS = 24 * 3600
_ABOUT = "recording.json"


class Answer(BaseModel):
    """The answer of a server.

    Attributes:
        selecting: The headers of its request by which servers choose one of several answers.
        body: The SHA-256 of the body in hexadecimal digits.
        size: The bytes of the body.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    schema_: int = Field(_SCHEMA, alias="schema", ge=_SCHEMA, le=_SCHEMA)
    method: str
    url: str
    selecting: dict[str, str]
    status: int = Field(ge=200, le=599)
    reason: str = Field(pattern=r"^[\x20-\x7e\x80-\xff]*$")
    headers: list[tuple[str, str]]
    body: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


@dataclass(frozen=True, slots=True)
class Body:
    """A body that is being written, under a temporary name."""

    file: BinaryIO
    path: Path


class Recording:
    """The directory of a recording.

    Args:
        path: The directory; `make` makes it.

    Raises:
        InputError: If it is something else than a recording, or one of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            about = json.loads(read_regular(path / _ABOUT, _MOST_ENTRY_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                raise InputError("is not a recording", path=path, hint="name an empty or a new directory") from None
            return
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"cannot be read: {error}", path=path / _ABOUT) from error
        if not isinstance(about, dict) or about.get("schema") != _SCHEMA:
            hint = "record again, into another directory"
            raise InputError("is a recording of another version of sandrl", path=path, hint=hint)

    @property
    def exists(self) -> bool:
        """Whether anything was recorded."""
        return (self.path / _ABOUT).exists()

    def make(self) -> None:
        """Makes the directory, if it is not there yet.

        Raises:
            InputError: If it cannot be made, or not be written.
        """
        try:
            bodies = self.path / "bodies"
            bodies.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.exists:
                write_whole(self.path / _ABOUT, json.dumps({"schema": _SCHEMA}).encode())
            _remove_partial(bodies)
            with tempfile.TemporaryFile(dir=bodies):
                pass
        except OSError as error:
            hint = "name a directory that you can write to"
            raise InputError(f"cannot be recorded into: {error.strerror}", path=self.path, hint=hint) from error

    def find(self, request: Request) -> Answer | None:
        """The kept answer to a request; that to GET also answers HEAD."""
        methods = [request.method, *(["GET"] if request.method == "HEAD" else [])]
        return next(filter(None, (self._find(self._folder(request, method), request) for method in methods)), None)

    def _find(self, folder: Path, request: Request) -> Answer | None:
        exact = _read(folder / f"{request.variant}.json")
        if exact is not None:
            return exact
        try:
            names = sorted(os.listdir(folder))[:_MOST_VARIANTS]
        except OSError:
            return None
        for name in names:
            found = None if name.startswith(".") else _read(folder / name)
            if found is not None and not varies(found.selecting, request, _header(found, "vary")):
                return found
        return None

    def open_body(self, answer: Answer) -> BinaryIO | None:
        """The body of a kept answer; None if it is missing, or has another size."""
        with suppress(OSError):
            file = os.fdopen(open_regular(self._body(answer.body), follow=False), "rb")
            if os.fstat(file.fileno()).st_size == answer.size:
                return file
            file.close()
        return None

    def begin_body(self) -> Body:
        """A new body, which `keep` keeps and `drop` drops.

        Raises:
            OSError: If it cannot be written.
        """
        path = self.path / "bodies" / f".{os.getpid()}-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return Body(os.fdopen(os.open(path, flags, 0o600), "wb"), path)

    def keep(self, request: Request, body: Body, digest: str, status: int, reason: str, headers: Headers) -> Answer:
        """Keeps a body under its digest, and then the answer.

        Raises:
            OSError: If it cannot be written.
            ValueError: If the answer is none that can be kept.
        """
        with body.file:
            size = body.file.tell()
        answer = Answer(
            schema=_SCHEMA,
            method=request.method,
            url=request.url,
            selecting=request.selecting,
            status=status,
            reason=reason,
            headers=[*kept_headers(headers)],
            body=digest,
            size=size,
        )
        content = answer.model_dump_json(by_alias=True, indent=1).encode()
        if len(content) > _MOST_ENTRY_BYTES:
            raise ValueError("its headers are too long")
        path = self._body(digest)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        body.path.replace(path)
        folder = self._folder(request, request.method)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / f"{request.variant}.json", content)
        return answer

    def drop(self, body: Body) -> None:
        """Drops a body that is not kept; nothing happens to one that is."""
        body.file.close()
        body.path.unlink(missing_ok=True)

    def _body(self, digest: str) -> Path:
        return self.path / "bodies" / digest[:2] / digest[2:]

    def _folder(self, request: Request, method: str) -> Path:
        key = request.key(method)
        return self.path / "answers" / key[:2] / key[2:]


def pieces(file: BinaryIO, part: range, answer: Answer) -> Iterator[bytes]:
    """A part of the body of an answer, piece by piece; the digest of a whole one is compared before its last piece.

    Raises:
        ValueError: If it has another digest, or fewer bytes.
    """
    found, left, last = hashlib.sha256(), len(part), b""
    file.seek(part.start)
    while left and (piece := file.read(min(left, 64 << 10))):
        left -= len(piece)
        found.update(piece)
        if last:
            yield last
        last = piece
    if left or (len(part) == answer.size and found.hexdigest() != answer.body):
        raise ValueError("the body of an answer is damaged")
    if last:
        yield last


def _header(answer: Answer, name: str) -> str:
    return header_of(tuple(answer.headers), name)


def _read(path: Path) -> Answer | None:
    try:
        return Answer.model_validate_json(read_regular(path, _MOST_ENTRY_BYTES, follow=False))
    except (OSError, ValidationError):
        return None


def _remove_partial(folder: Path) -> None:
    oldest = time.time() - _PARTIAL_SECONDS
    for each in folder.glob(".*-*"):
        with suppress(OSError):
            if re.fullmatch(r"\.\d+-[0-9a-f]{16}", each.name) and each.stat().st_mtime < oldest:
                each.unlink()
