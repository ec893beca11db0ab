"""Files for machines and from them."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from sandrl.errors import InputError
from sandrl.trials.entries import Entry, archived, of_archive, of_directory, paths_of, without


def test_a_directory_is_read_with_modes_and_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o750)
    (tmp_path / "a/run").write_bytes(b"x")
    (tmp_path / "a/run").chmod(0o755)
    (tmp_path / "link").symlink_to("/etc")
    assert of_directory(tmp_path) == [
        Entry("a", 0o750),
        Entry("a/run", 0o755, b"x"),
        Entry("link", 0o777, target="/etc"),
    ]


def test_what_cannot_be_files_of_a_task_is_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    with pytest.raises(InputError, match="too large"):
        of_directory(tmp_path, 10)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither a file"):
        of_directory(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        of_directory(tmp_path / "missing")


def test_an_archive_has_what_was_put_into_it() -> None:
    entries = [Entry("d", 0o700), Entry("d/f", 0o640, b"content"), Entry("l", 0o777, target="d/f")]
    assert of_archive(archived(entries)) == entries


def hostile(*members: tuple[str, bytes, str]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as file:
        for name, kind, link in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            file.addfile(member)
    return output.getvalue()


@pytest.mark.parametrize("name", ["../out", "a/../../out", "x/.."])
def test_paths_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="leads out"):
        of_archive(hostile((name, tarfile.REGTYPE, "")))


def test_hostile_archives_have_nothing_but_files() -> None:
    archive = hostile(
        ("/etc/absolute", tarfile.REGTYPE, ""),
        ("device", tarfile.CHRTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("hard", tarfile.LNKTYPE, "/etc/shadow"),
    )
    assert of_archive(archive) == [Entry("etc/absolute", 0o644, b"")]


@pytest.mark.parametrize("damaged", [b"", b"x" * 2000, archived([Entry("a", 0o644, b"y" * 9000)])[:4000]])
def test_damaged_archives_are_refused(damaged: bytes) -> None:
    with pytest.raises(InputError, match="is damaged"):
        of_archive(damaged)


def test_large_archives_are_refused() -> None:
    with pytest.raises(InputError, match="too large"):
        of_archive(archived([Entry("a", 0o644, b"y" * 9000)]), 8000)
    sparse = tarfile.TarInfo("a")
    sparse.size = 1 << 40
    with pytest.raises(InputError):
        of_archive(sparse.tobuf() + bytes(1024))


def test_patterns_leave_out_what_tar_would() -> None:
    names = ["a", "a/b.log", "a/node_modules", "a/node_modules/x", "c.log", "logs"]
    kept = without([Entry(name) for name in names], ["*.log", "node_modules"])
    assert [entry.name for entry in kept] == ["a", "logs"]
    assert paths_of([Entry("x/y/z"), Entry("x/w")]) == ["x", "x/y", "x/y/z", "x/w"]
