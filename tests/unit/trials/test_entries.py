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


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header that says a size which `tarfile` would not write, in base 256."""
    member = tarfile.TarInfo(name)
    member.type = kind
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[124:136] = (b"\x80" if size >= 0 else b"\xff") + (size % 256**11).to_bytes(11, "big")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def sparse(size: int) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as file:
        member = tarfile.TarInfo("f")
        member.pax_headers = {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(size)}
        member.size = 512
        file.addfile(member, io.BytesIO(bytes(512)))
    return output.getvalue()


_END = bytes(1024)
_HEADERS = {
    "a long name of no integer": header("././@LongLink", 1 << 80, tarfile.GNUTYPE_LONGNAME) + _END,
    "attributes of no integer": header("x", 1 << 80, tarfile.XHDTYPE) + _END,
    "thousands of long names": header("././@LongLink", 2, tarfile.GNUTYPE_LONGNAME).ljust(1024, b"\0") * 3000 + _END,
    "a size that leads back": header("a", 0) + header("b", -512) + _END,
    "a size that leads back to another": header("a", 0) + header("b", -1024) + _END,
    "a kind nobody knows that leads back": header("a", 0) + header("b", -512, b"Z") + _END,
    "a sparse file": sparse(1 << 29),
}


@pytest.mark.parametrize("archive", _HEADERS.values(), ids=_HEADERS)
def test_headers_that_somebody_made_up_are_an_error_and_take_neither_time_nor_memory(archive: bytes) -> None:
    with pytest.raises(InputError, match=r"damaged|too large"):
        of_archive(archive)
