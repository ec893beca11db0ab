"""Where files of `COPY` and `ADD` come from: contexts, images and addresses."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BufferedRandom, BufferedReader
from pathlib import Path

import httpx

from sandrl.errors import InputError, ServiceError
from sandrl.files import read_regular
from sandrl.runtime.images.dockerfile.patterns import Ignored
from sandrl.runtime.images.merged import MergedTree, Parts
from sandrl.runtime.recording.request import without_secrets

_MOST_IGNORE_BYTES = 1 << 20
_MOST_DOWNLOAD_BYTES = 8 << 30
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Origin:
    """Where files come from: a tree, what is left out of it, and whether they keep their owners."""

    tree: MergedTree
    ignored: Ignored = field(default_factory=Ignored)
    keeps_owners: bool = False

    def has(self, path: Parts) -> bool:
        return not path or not self.ignored.leaves_out("/".join(path))


def open_context(directory: Path, dockerfile: Path) -> Origin:
    """The files of a context without those that its ignore file leaves out.

    Raises:
        InputError: If it is not a directory, or an ignore file cannot be read.
    """
    # The ignore file of a Dockerfile of its own goes before that of the context.
    for path in (
        dockerfile.with_name(f"{dockerfile.name}.dockerignore"),
        directory / ".dockerignore",
    ):
        try:
            lines = (
                read_regular(path, _MOST_IGNORE_BYTES).decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
            )
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from error
        try:
            ignored = Ignored.parse(lines)
        except InputError as error:
            raise error.at(path) from None
        break
    else:
        ignored = Ignored()
    if not directory.is_dir():
        raise InputError("is not a directory", path=directory, hint="name the directory of the build")
    return Origin(MergedTree([directory.resolve()], str(directory), keeps_owners=False), ignored)


class RemoteFile:
    """A file at an address, which is downloaded once, when it is needed.

    Args:
        client: Opens a client for the download.
        scratch: Where it is kept, without a name, until `close`.
    """

    def __init__(self, address: str, client: Callable[[], httpx.Client], scratch: Path) -> None:
        self._address = address
        self._client = client
        self._scratch = scratch
        self._file: BufferedRandom | None = None

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def open(self) -> BufferedReader:
        """Opens the content.

        Raises:
            ServiceError: If it cannot be downloaded.
            InputError: If it is too large.
        """
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._scratch)  # noqa: SIM115 - `__exit__` closes it
            self._download(self._file)
        self._file.seek(0)
        # What is read is closed; the file itself may be needed again.
        return os.fdopen(os.dup(self._file.fileno()), "rb")

    def digest(self) -> str:
        """The digest of the content, in hexadecimal digits; see `open`."""
        with self.open() as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _download(self, file: BufferedRandom) -> None:
        address = without_secrets(self._address)
        try:
            with self._client() as client, client.stream("GET", self._address, follow_redirects=True) as response:
                if not response.is_success:
                    raise ServiceError(f"{address} answers {response.status_code}", hint="check the address")
                for chunk in response.iter_bytes(_CHUNK):
                    file.write(chunk)
                    if file.tell() > _MOST_DOWNLOAD_BYTES:
                        raise InputError(f"{address} is larger than {_MOST_DOWNLOAD_BYTES >> 30} GiB")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise ServiceError(f"{address} cannot be downloaded: {reason}", hint="check the network") from error
