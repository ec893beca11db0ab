"""Files from directories of others are opened without waiting, and read up to a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandrl.files import read_regular, write_whole


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    with pytest.raises(OSError, match="is larger than 4 bytes"):
        read_regular(path, 4)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    fifo, device, folder = tmp_path / "fifo", tmp_path / "device", tmp_path / "folder"
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    folder.mkdir()
    for path in (fifo, device):
        with pytest.raises(OSError, match="is not a regular file"):
            read_regular(path, 5)
    with pytest.raises(IsADirectoryError):
        read_regular(folder, 5)


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 5) == b"1"
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(tmp_path / "link", 5, follow=False)


def test_a_file_that_is_replaced_keeps_the_permissions_its_user_gave_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, b"1")
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    write_whole(path, b"2")
    assert path.stat().st_mode & 0o777 == 0o644
