"""Files for machines and from them."""

from __future__ import annotations

import io
import tarfile

import pytest

from sandrl.errors import InputError
from sandrl.trials.entries import Entry, archived, of_archive, paths_of, without


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
