"""Files of sandboxes on the disk, without a sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandrl.runtime.guest import storage


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


def test_a_sandbox_far_beyond_its_limit_is_lost(space: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_LEAST_LOST_BYTES", 2 << 20)
    stored = storage.Storage(space, 1 << 20, 0)
    (tmp_path / "file").write_bytes(bytes(2 << 20))
    assert (stored.is_exceeded([]), stored.is_lost) == (True, False)
    stored = storage.Storage(space, 1 << 20, 0)
    (tmp_path / "more").write_bytes(bytes(8 << 20))
    assert (stored.is_exceeded([]), stored.is_lost) == (True, True)


def test_a_full_file_system_ends_what_is_beyond_its_limit_alone(
    space: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modest, greedy = storage.Storage(space, 64 << 20, 0), storage.Storage(space, 1 << 20, 0)
    (tmp_path / "file").write_bytes(bytes(4 << 20))
    monkeypatch.setattr(storage, "LEAST_FREE_BYTES", 1 << 60)
    assert (modest.is_exceeded([]), modest.is_lost) == (True, False)
    assert (greedy.is_exceeded([]), greedy.is_lost) == (True, True)
