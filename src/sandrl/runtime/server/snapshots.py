"""File-system snapshots: archives of scratch volumes, kept in the state directory until they are deleted.

Daemons of other versions and environments use the same directory, so nothing of it is kept in memory. A snapshot is
there once its record is, which is written last.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.files import write_whole
from sandrl.runtime import limits
from sandrl.runtime.host.files import FileError, archive, unpack
from sandrl.runtime.host.sandbox import HostSandbox
from sandrl.runtime.server import faults, volumes
from sandrl.runtime.server.records import Record

_ID = re.compile(r"fss-[0-9a-f]{32}\Z")
_CHUNK_BYTES = 1 << 20
_LEFTOVER_SECONDS = 24 * 3600
_DEFAULT_PAGE, _MAX_PAGE = 100, 1000


class Snapshots:
    """The snapshots in a directory, which is made with the first one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def create(
        self, record: Record, host: HostSandbox, volume: str, request_id: str, trigger: pb.SnapshotTrigger
    ) -> pb.FileSystemSnapshot:
        """Archive a volume of a sandbox; the name may be left out where there is one.

        Raises:
            faults.Fault: If there is no such volume, no room, or the archive fails.
        """
        for known in self._all() if request_id else ():
            if (known.request_id, known.source_sandbox_id) == (request_id, record.sandbox_id):
                return known
        volume = volume or _only_volume(record)
        path = volumes.place(record.plan.boot.mounts, volume)
        snapshot = pb.FileSystemSnapshot(
            file_system_snapshot_id=f"fss-{uuid.uuid4().hex}",
            source_sandbox_id=record.sandbox_id,
            source_volume_name=volume,
            request_id=request_id,
            trigger=trigger,
        )
        snapshot.create_time.FromNanoseconds(time.time_ns())
        snapshot.size_bytes = await self._archive(host, path, snapshot.file_system_snapshot_id)
        snapshot.state = pb.SNAPSHOT_STATE_READY
        for moment in (snapshot.complete_time, snapshot.updated_at):
            moment.FromNanoseconds(time.time_ns())
        write_whole(self._record(snapshot.file_system_snapshot_id), snapshot.SerializeToString())
        return snapshot

    async def _archive(self, host: HostSandbox, path: str, snapshot_id: str) -> int:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._remove_leftovers()
        left = limits.SNAPSHOTS_MAX_BYTES - sum(each.size_bytes for each in self._all())
        place = self._archive_of(snapshot_id)
        try:
            with place.open("wb") as file:

                def keep(data: bytes) -> None:
                    if file.tell() + len(data) > left:
                        raise _fault("CWSANDBOX_FSS_QUOTA_EXCEEDED", "there is no room left: delete other snapshots")
                    file.write(data)

                await archive(host, path, keep)
                return file.tell()
        except BaseException as error:
            place.unlink(missing_ok=True)
            if isinstance(error, (FileError, OSError)):
                raise _fault("CWSANDBOX_FSS_CREATE_FAILED", f"the volume cannot be archived: {error}") from error
            raise

    def _remove_leftovers(self) -> None:
        # Of daemons that were killed; another one may be at work on those that are young.
        for path in self._directory.glob("*.tar"):
            with contextlib.suppress(FileNotFoundError):
                if not path.with_suffix(".pb").exists() and path.stat().st_mtime < time.time() - _LEFTOVER_SECONDS:
                    path.unlink()

    async def restore(self, host: HostSandbox, snapshot_id: str, path: str) -> None:
        """Unpack a snapshot in a volume of a sandbox.

        Raises:
            faults.Fault: If there is none, or it does not fit.
        """
        self.get(snapshot_id)
        try:
            with self._archive_of(snapshot_id).open("rb") as file:
                await unpack(host, path, iter(lambda: file.read(_CHUNK_BYTES), b""))
        except (FileError, OSError) as error:
            message = f"snapshot {snapshot_id!r} cannot be restored: {error}"
            raise _fault("CWSANDBOX_FSS_RESTORE_FAILED", message) from error

    def get(self, snapshot_id: str) -> pb.FileSystemSnapshot:
        """The snapshot of that id.

        Raises:
            faults.Fault: If there is none.
        """
        if _ID.match(snapshot_id) and (found := self._read(self._record(snapshot_id))):
            return found
        message = f"file-system snapshot {snapshot_id!r} not found"
        raise faults.Fault(grpc.StatusCode.NOT_FOUND, message, reason="CWSANDBOX_FSS_NOT_FOUND")

    def list(self, request: pb.ListFileSystemSnapshotsRequest) -> pb.ListFileSystemSnapshotsResponse:
        """One page of the snapshots, the oldest first."""
        ordered = sorted(self._all(), key=lambda each: (each.create_time.ToNanoseconds(), each.file_system_snapshot_id))
        chosen = [each for each in ordered if request.source_sandbox_id in ("", each.source_sandbox_id)]
        names = [each.file_system_snapshot_id for each in chosen]
        if request.page_token and request.page_token not in names:
            raise faults.invalid(f"{request.page_token!r} is not a page token", "page_token")
        first = names.index(request.page_token) + 1 if request.page_token else 0
        page = chosen[first : first + min(request.page_size or _DEFAULT_PAGE, _MAX_PAGE)]
        token = page[-1].file_system_snapshot_id if page and page[-1] is not chosen[-1] else ""
        return pb.ListFileSystemSnapshotsResponse(file_system_snapshots=page, next_page_token=token)

    def delete(self, snapshot_id: str) -> pb.FileSystemSnapshot:
        """Remove a snapshot; sandboxes that were restored from it keep their files.

        Raises:
            faults.Fault: If there is none.
        """
        found = self.get(snapshot_id)
        for path in (self._record(snapshot_id), self._archive_of(snapshot_id)):
            path.unlink(missing_ok=True)
        found.state = pb.SNAPSHOT_STATE_DELETING
        return found

    def _record(self, snapshot_id: str) -> Path:
        return self._directory / f"{snapshot_id}.pb"

    def _archive_of(self, snapshot_id: str) -> Path:
        return self._directory / f"{snapshot_id}.tar"

    def _all(self) -> Iterator[pb.FileSystemSnapshot]:
        for path in self._directory.glob("*.pb"):
            if (found := self._read(path)) is not None:
                yield found

    def _read(self, path: Path) -> pb.FileSystemSnapshot | None:
        try:
            return pb.FileSystemSnapshot.FromString(path.read_bytes())
        except FileNotFoundError:
            return None  # deleted meanwhile


def _only_volume(record: Record) -> str:
    names = {mount.volume for mount in record.plan.boot.mounts}
    if len(names) != 1:
        raise _fault("CWSANDBOX_FSS_NOT_SUPPORTED", f"name the volume: the sandbox has {len(names)} scratch volumes")
    return names.pop()


def _fault(reason: str, message: str) -> faults.Fault:
    return faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, message, reason=reason)
