"""File-system snapshots through the unmodified SDK."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cwsandbox import (
    FileSystemSnapshotOptions,
    Sandbox,
    SandboxDefaults,
    SandboxSnapshotError,
    ScratchVolumeOptions,
    Session,
    SnapshotNotFoundError,
    SnapshotNotSupportedError,
    SnapshotQuotaExceededError,
)
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime import limits
from tests.integration.runtime.test_fields import calling

MOUNT = FileSystemSnapshotOptions(mount_path="/workspace")
FILL = """
mkdir -p deep/er shut; echo note > deep/er/note; ln -s note deep/er/link; ln deep/er/note deep/hard; chmod 700 deep/er
printf x > 'na"me ü'; truncate -s 3M zeros; chmod 000 zeros; chmod 000 shut; mkfifo pipe; touch -d @1000000000 old
"""
SHOW = """
find . -not -type p -printf '%P %y %m %l %n %s\\n' | sort; stat -c %Y old; cat deep/er/link; test -p pipe && echo pipe
"""


@pytest.fixture
def kept(endpoint: object) -> Iterator[list[str]]:
    """Ids of snapshots that are deleted at the end."""
    made: list[str] = []
    yield made
    for name in made:
        Sandbox.delete_snapshot(name, missing_ok=True).result()


def shown(sandbox: Sandbox) -> str:
    result = sandbox.exec(["sh", "-c", SHOW], cwd="/workspace").result()
    assert result.returncode == 0, result.stderr
    return str(result.stdout)


def restored(session: Session, name: str) -> Sandbox:
    options = FileSystemSnapshotOptions(mount_path="/workspace", file_system_snapshot_id=name)
    return session.sandbox(file_system_snapshot=options)


def test_a_volume_is_restored_as_it_was(session: Session, kept: list[str]) -> None:
    sandbox = session.sandbox(file_system_snapshot=MOUNT)
    assert sandbox.exec(["sh", "-ec", FILL], cwd="/workspace").result().returncode == 0
    before = shown(sandbox)
    kept.append(sandbox.snapshot().result())
    sandbox.exec(["sh", "-c", "rm -r deep; echo later > later"], cwd="/workspace").result()
    for _ in range(2):
        assert shown(restored(session, kept[0])) == before
    assert "pipe\n" in before
    assert "later" not in before


def test_a_snapshot_at_the_end_is_found_and_deleted(session: Session, kept: list[str]) -> None:
    sandbox = session.sandbox(file_system_snapshot=MOUNT)
    sandbox.exec(["sh", "-c", "echo last > /workspace/note"]).result()
    sandbox.stop(snapshot_on_stop=True).result()
    assert sandbox.file_system_snapshot_id is not None
    kept.append(sandbox.file_system_snapshot_id)
    snapshot = Sandbox.get_snapshot(kept[0]).result()
    assert (snapshot.status.value, snapshot.source_sandbox_id) == ("ready", sandbox.sandbox_id)
    found = Sandbox.list_snapshots(source_sandbox_id=sandbox.sandbox_id).result()
    assert [each.file_system_snapshot_id for each in found] == kept
    assert restored(session, kept[0]).read_file("/workspace/note").result() == b"last\n"
    Sandbox.delete_snapshot(kept[0]).result()
    for call in (Sandbox.get_snapshot, Sandbox.delete_snapshot):
        with pytest.raises(SnapshotNotFoundError):
            call(kept[0]).result()
    with pytest.raises(SnapshotNotFoundError):
        Sandbox.get_snapshot("../../token").result()


def test_a_request_that_is_repeated_makes_one_snapshot(session: Session, kept: list[str]) -> None:
    sandbox = session.sandbox(file_system_snapshot=MOUNT)
    kept += [sandbox.snapshot(request_id="the-same").result() for _ in range(2)]
    assert kept[0] == kept[1]
    kept.append(sandbox.snapshot(request_id="another").result())
    assert kept[2] != kept[0]


def test_snapshots_are_listed_by_page_and_sandbox(session: Session, kept: list[str], defaults: SandboxDefaults) -> None:
    sandboxes = [session.sandbox(file_system_snapshot=MOUNT) for _ in range(2)]
    kept += [sandboxes[number].snapshot().result() for number in (0, 0, 0, 1)]
    with calling(defaults) as calls:
        token = ""
        pages: list[list[str]] = []
        while token or not pages:
            request = pb.ListFileSystemSnapshotsRequest(
                page_size=2, page_token=token, source_sandbox_id=sandboxes[0].sandbox_id
            )
            page = calls.ListFileSystemSnapshots(request)
            pages.append([each.file_system_snapshot_id for each in page.file_system_snapshots])
            token = page.next_page_token
        assert pages == [kept[:2], kept[2:3]]
        missing = pb.DeleteFileSystemSnapshotRequest(file_system_snapshot_id="fss-none", allow_missing=True)
        calls.DeleteFileSystemSnapshot(missing)
    with pytest.raises(SnapshotNotFoundError):
        Sandbox.delete_snapshot("fss-none").result()


def test_a_volume_that_cannot_be_read_whole_has_no_snapshot(session: Session) -> None:
    volume = ScratchVolumeOptions(name="v", mount_path="/v", read_only=True)
    with pytest.raises(SnapshotNotSupportedError, match="mounted whole and writable"):
        session.sandbox(volumes=[volume]).snapshot().result()


def test_a_snapshot_that_does_not_fit_fails_the_create_and_leaves_nothing(
    session: Session, kept: list[str], runtime_state: Path
) -> None:
    large = session.sandbox(volumes=[ScratchVolumeOptions(name="v", mount_path="/v", size="400Mi")])
    large.exec(["sh", "-c", "head -c 300M /dev/zero > /v/zeros"]).result()
    kept.append(large.snapshot().result())
    with pytest.raises(SandboxSnapshotError, match="No space left"):
        restored(session, kept[0]).start().result()
    kept.append(f"fss-{'0' * 32}")
    full = pb.FileSystemSnapshot(file_system_snapshot_id=kept[1], size_bytes=limits.SNAPSHOTS_MAX_BYTES)
    (runtime_state / "snapshots" / f"{kept[1]}.pb").write_bytes(full.SerializeToString())
    before = set(os.listdir(runtime_state / "snapshots"))
    with pytest.raises(SnapshotQuotaExceededError, match="delete other snapshots"):
        large.snapshot().result()
    assert set(os.listdir(runtime_state / "snapshots")) == before


def test_programs_that_write_meanwhile_do_not_break_a_snapshot(session: Session, kept: list[str]) -> None:
    sandbox = session.sandbox(file_system_snapshot=MOUNT)
    program = "while :; do head -c 20M /dev/zero > a; : > a; mkdir -p d; touch d/b d/c; rm -r d; done"
    running = sandbox.exec(["sh", "-c", program], cwd="/workspace", timeout_seconds=60)
    for _ in range(5):
        kept.append(sandbox.snapshot().result())
        restored(session, kept[-1]).wait()
    running.cancel()
