"""Files of sandboxes on the disk, without a sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.runtime.guest import storage
from sandrl.runtime.host import spaces


@pytest.fixture
def space(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def test_what_is_there_first_is_not_counted_and_what_is_added_is(space: int, tmp_path: Path) -> None:
    (tmp_path / "first").write_bytes(bytes(2 << 20))
    stored = storage.Storage(space, 1 << 20, 0)
    assert not stored.is_exceeded([])
    os.link(tmp_path / "first", tmp_path / "linked")
    assert not stored.is_exceeded([])
    (tmp_path / "second").write_bytes(bytes(2 << 20))
    assert stored.is_exceeded([])
    (tmp_path / "second").unlink()
    stored = storage.Storage(space, 1 << 20, 0)
    assert not stored.is_exceeded([])


def test_after_a_kill_programs_may_tidy_up_while_files_hardly_grow(
    space: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_SLACK_BYTES", 1 << 20)
    monkeypatch.setattr(storage, "_PAUSES_PER_LOOK", 0.0)
    writer, other = os.getpid(), os.getppid()
    stored = storage.Storage(space, 1 << 20, 0)

    def is_exceeded(*found: int, and_written: int = 0) -> bool:
        if and_written:
            (tmp_path / f"{len(list(tmp_path.iterdir()))}").write_bytes(bytes(and_written))
        for _ in range(2):  # the second look is beyond the pause after the first
            is_it = stored.is_exceeded(list(found))
        return is_it

    assert is_exceeded(writer, and_written=2 << 20)
    assert is_exceeded(writer, and_written=1 << 20), "what was killed has not ended"
    assert not is_exceeded(other)
    assert not is_exceeded(other, and_written=512 << 10)
    assert is_exceeded(other, and_written=1 << 20)
    assert not is_exceeded(writer), "what was there then is still no reason to kill"
    assert is_exceeded(writer, and_written=128 << 10), "less room is given a second time"
    for path in tmp_path.iterdir():
        path.unlink()
    assert not is_exceeded(other)
    assert is_exceeded(other, and_written=2 << 20), "the limit holds again"


def test_a_sandbox_far_beyond_its_limit_is_lost(space: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_LEAST_LOST_BYTES", 2 << 20)
    stored = storage.Storage(space, 1 << 20, 0)
    (tmp_path / "file").write_bytes(bytes(2 << 20))
    assert (stored.is_exceeded([]), stored.is_lost) == (True, False)
    stored = storage.Storage(space, 1 << 20, 0)
    (tmp_path / "more").write_bytes(bytes(8 << 20))
    assert (stored.is_exceeded([]), stored.is_lost) == (True, True)


def test_a_full_file_system_ends_a_sandbox_within_its_limit(
    space: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = storage.Storage(space, 64 << 20, 0)
    (tmp_path / "file").write_bytes(bytes(4 << 20))
    assert (stored.is_exceeded([]), stored.is_lost) == (False, False)
    monkeypatch.setattr(storage, "LEAST_FREE_BYTES", 1 << 60)
    assert (stored.is_exceeded([]), stored.is_lost) == (True, True)


def test_a_limit_reserves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = spaces.Spaces(tmp_path)
    assert (tmp_path / made.make(None, 1 << 60)).is_dir()
    usage = os.statvfs(tmp_path)
    monkeypatch.setattr(spaces, "LEAST_FREE_BYTES", usage.f_bavail * usage.f_frsize - (64 << 20))
    assert (tmp_path / made.make(None, 1 << 20)).is_dir()
    with pytest.raises(spaces.NoSpaceError, match=r"needs 1024 MiB on disk at its start, and .* has \d+ MiB"):
        made.make(None, 1 << 60)
