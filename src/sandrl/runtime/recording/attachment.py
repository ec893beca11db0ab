"""A recording that sandboxes are attached to: a command prepares it, and the gate of each sandbox uses it.

The gate is another process. It reads what it needs from a private file, which has the passwords of proxies and ends
with the command.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, ValidationError

from sandrl.errors import InputError
from sandrl.files import read_regular
from sandrl.runtime.downloads.gathered import CERTIFICATES
from sandrl.runtime.downloads.settings import DownloadSettings, download_settings
from sandrl.runtime.images import locks
from sandrl.runtime.recording.authority import open_authority
from sandrl.runtime.recording.recorder import Recorder, RecordingMode
from sandrl.runtime.recording.recording import Recording
from sandrl.runtime.recording.servers import ServerOptions
from sandrl.settings import private_directory

if TYPE_CHECKING:
    import asyncio

    from sandrl.runtime.gate.sandbox import Destination

_MOST_BYTES = 16 << 20
_PORTS = (80, 443)
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class _Prepared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    directory: Path
    state_dir: Path
    mode: RecordingMode
    certificates: str
    proxies: dict[str, str]
    unverified: tuple[str, ...]
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A prepared recording.

    Attributes:
        file: What `Network.recording` of a sandbox names.
        downloads: What its programs need, so that they trust the recorder.
    """

    file: str
    downloads: DownloadSettings


@contextmanager
def attachment(
    directory: Path,
    mode: RecordingMode,
    state_dir: Path,
    environment: Mapping[str, str],
    given: Mapping[str, str] = _NO_VARIABLES,
) -> Iterator[Attachment]:
    """Prepares a recording for sandboxes that are created within a `with` block.

    Args:
        directory: The recording.
        state_dir: The user's directory, `Settings.state_dir`.
        environment: The user's environment; see `download_settings`, also for `given`.

    Raises:
        InputError: If the directory is not a recording, cannot be written, or there is none to replay.
        SandrlError: If the authority of the user cannot be used.
    """
    recording = Recording(directory.absolute())
    if mode is RecordingMode.REPLAY and not recording.exists:
        raise InputError("has no recording to replay", path=directory, hint="record first")
    if mode is not RecordingMode.REPLAY:
        recording.make()
    downloads = download_settings(environment, given, authority=open_authority(state_dir).certificate)
    ports = {int(each.rpartition(":")[2]) for each in downloads.reachable}
    prepared = _Prepared(
        directory=recording.path,
        state_dir=state_dir,
        mode=mode,
        certificates=downloads.files[CERTIFICATES].decode(),
        proxies=dict(downloads.proxies),
        unverified=downloads.unverified,
        ports=tuple(sorted({*_PORTS, *ports})),
    )
    with _kept(private_directory(state_dir / "recording"), prepared.model_dump_json().encode()) as file:
        yield Attachment(str(file), downloads)


@contextmanager
def _kept(directory: Path, content: bytes) -> Iterator[Path]:
    # A command locks its file; that of one that was killed is removed by the next.
    guard = locks.take(directory / "lock", exclusive=True)
    try:
        for path in directory.glob("*.json"):
            if (abandoned := locks.take_free(path, exclusive=True)) is not None:
                locks.remove(path, abandoned)
        file = directory / f"{uuid4().hex}.json"
        lock = locks.take(file, exclusive=True)
    finally:
        os.close(guard)
    try:
        file.write_bytes(content)
        yield file
    finally:
        locks.remove(file, lock)


class AttachedRecorder:
    """The recorder of one sandbox, in its gate.

    Args:
        file: `Attachment.file`.
        tell: Called with each request that had no answer: the destination, and what it was.

    Raises:
        InputError: If the file or the recording cannot be used.
        SandrlError: If the authority of the user cannot be used.
    """

    def __init__(self, file: str, tell: Callable[[tuple[str, int], str], None]) -> None:
        try:
            prepared = _Prepared.model_validate_json(read_regular(file, _MOST_BYTES, follow=False))
        except (OSError, ValidationError):
            # The text of the error may have a password.
            raise InputError("is not a prepared recording, or its command has ended", path=file) from None
        options = ServerOptions(
            ssl.create_default_context(cadata=prepared.certificates), frozenset(prepared.unverified), prepared.proxies
        )
        authority = open_authority(prepared.state_dir)
        self._ports = frozenset(prepared.ports)
        self._recorder = Recorder(Recording(prepared.directory), authority, prepared.mode, options, tell=tell)

    @property
    def is_offline(self) -> bool:
        """Whether nothing may leave the machine."""
        return self._recorder.is_offline

    def takes(self, port: int) -> bool:
        """Whether it serves the connections to a port."""
        return port in self._ports

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, destination: Destination) -> None:
        """Serves a connection of the sandbox, which is allowed, until it ends."""
        await self._recorder.serve(reader, writer, (destination.name, destination.port), destination.connect)
