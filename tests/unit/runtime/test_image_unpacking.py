"""An archive becomes the files of a layer, as an overlay takes them, and nothing outside of its directory changes."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from tests.support.archives import Member, archive, file, folder, hard_link, symlink
from tests.support.programs import require_program

from sandrl.runtime.images.archive import ArchiveError
from sandrl.runtime.images.compression import CompressionError
from sandrl.runtime.images.tree import OPAQUE
from sandrl.runtime.images.unpack import Limits, NoSpaceError, unpack

_IS_ROOT = os.geteuid() == 0


def _unpacked(tmp_path: Path, *members: Member, limits: Limits | None = None) -> Path:
    return _unpack(tmp_path, archive(*members), limits)


def _unpack(tmp_path: Path, content: bytes, limits: Limits | None = None) -> Path:
    target = tmp_path / "layer"
    target.mkdir()
    unpack(io.BytesIO(content), target, keeps_owners=_IS_ROOT, limits=limits)
    return target


def _is_whiteout(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def _is_opaque(path: Path) -> bool:
    return OPAQUE in os.listxattr(path)


def test_files_have_their_content_modes_and_times(tmp_path: Path) -> None:
    layer = _unpacked(
        tmp_path,
        folder("./", mode=0o555),
        folder("./a", mode=0o1777, modified=1_234_567_890.5),
        file("./a/run", b"text", mode=0o4755, records={"mtime": "1234567890.123456789"}),
        symlink("./a/link", "/etc/passwd"),
        hard_link("./b", "./a/run"),
        Member("./fifo", kind=tarfile.FIFOTYPE, mode=0o640),
    )
    run = (layer / "a/run").stat()
    assert (layer / "a/run").read_bytes() == b"text"
    assert stat.S_IMODE(run.st_mode) == 0o4755
    assert run.st_mtime_ns == 1_234_567_890_123_456_789
    assert run.st_nlink == 2
    assert run.st_ino == (layer / "b").stat().st_ino
    assert stat.S_IMODE((layer / "a").stat().st_mode) == 0o1777
    assert (layer / "a").stat().st_mtime_ns == 1_234_567_890_500_000_000
    assert stat.S_IMODE(layer.stat().st_mode) == 0o555
    assert os.readlink(layer / "a/link") == "/etc/passwd"
    assert stat.S_ISFIFO((layer / "fifo").stat().st_mode)
    assert stat.S_IMODE((layer / "fifo").stat().st_mode) == 0o640


@pytest.mark.skipif(not _IS_ROOT, reason="needs root, who alone can give files to others")
def test_root_keeps_the_owners_of_files(tmp_path: Path) -> None:
    layer = _unpacked(tmp_path, folder("d", user=7, group=8), file("d/f", user=1000, group=1001, mode=0o4755))
    assert (layer / "d").stat().st_uid == 7
    assert ((layer / "d/f").stat().st_uid, (layer / "d/f").stat().st_gid) == (1000, 1001)
    assert stat.S_IMODE((layer / "d/f").stat().st_mode) == 0o4755


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_format_of_archives_is_read(tmp_path: Path, form: int) -> None:
    long = "/".join(["directory" * 3] * (3 if form == tarfile.USTAR_FORMAT else 12))
    layer = _unpack(tmp_path, archive(folder("d"), file(f"d/{long}", b"x" * 1000), symlink("s", "t" * 90), form=form))
    assert (layer / "d" / long).read_bytes() == b"x" * 1000
    assert os.readlink(layer / "s") == "t" * 90


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_may_have_any_bytes_and_be_long(tmp_path: Path, form: int) -> None:
    name = b"\xff\xfe\n\x1b[31m".decode("utf-8", "surrogateescape")
    layer = _unpack(tmp_path, archive(file(name * 25, b"long"), form=form))
    assert os.listdir(os.fsencode(layer)) == [b"\xff\xfe\n\x1b[31m" * 25]


@pytest.mark.parametrize("version", ["gnu", "0.0", "0.1", "1.0"])
def test_sparse_files_keep_their_holes(tmp_path: Path, version: str) -> None:
    require_program("tar")
    source = tmp_path / "sparse"
    with source.open("wb") as written:
        written.seek(9 << 30)
        written.write(b"end")
        written.seek(5 << 20)
        written.write(b"m" * 5000)
    form = ["--format=gnu"] if version == "gnu" else ["--format=pax", f"--sparse-version={version}"]
    packed = tmp_path / "packed.tar"
    subprocess.run(["tar", "-C", tmp_path, "-S", *form, "-cf", packed, "sparse"], check=True)
    layer = _unpack(tmp_path, packed.read_bytes())
    found = (layer / "sparse").stat()
    assert found.st_size == (9 << 30) + 3
    assert found.st_blocks * 512 < 1 << 20
    with (layer / "sparse").open("rb") as read:
        read.seek(5 << 20)
        assert read.read(5001) == b"m" * 5000 + b"\0"
        read.seek(9 << 30)
        assert read.read() == b"end"


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_file_of_more_than_8_gib_is_read_by_its_true_size(tmp_path: Path, form: int) -> None:
    header = tarfile.TarInfo("big")
    header.size = 9 << 30
    content = header.tobuf(form) + b"x" * 512  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="cut off"):
        _unpack(tmp_path, content)
    assert (tmp_path / "layer/big").stat().st_size == 512
    with pytest.raises(ArchiveError, match="more than 8 GiB"):
        unpack(io.BytesIO(content), tmp_path / "layer", keeps_owners=False, limits=Limits(most_bytes=8 << 30))


def test_attributes_of_users_are_kept_and_those_of_overlays_are_not(tmp_path: Path) -> None:
    records = {
        "SCHILY.xattr.user.note": "kept",
        "SCHILY.xattr.user.overlay.opaque": "y",
        "SCHILY.xattr.trusted.overlay.redirect": "/etc",
        "SCHILY.xattr.user.overlay.metacopy": "",
    }
    layer = _unpacked(tmp_path, folder("d", records=records), file("d/f", mode=0o400, records=records))
    for path in (layer / "d", layer / "d/f"):
        assert os.listxattr(path) == ["user.note"]
        assert os.getxattr(path, "user.note") == b"kept"


def test_whiteouts_hide_what_lower_layers_have(tmp_path: Path) -> None:
    layer = _unpacked(tmp_path, folder("d"), file("d/.wh.gone"), file("d/.wh.other"), file("d/other", b"new"))
    assert _is_whiteout(layer / "d/gone")
    assert (layer / "d/other").read_bytes() == b"new"
    assert sorted(os.listdir(layer / "d")) == ["gone", "other"]


@pytest.mark.parametrize("first", [True, False])
def test_a_whiteout_beside_a_directory_of_the_same_layer_hides_only_lower_layers(tmp_path: Path, first: bool) -> None:
    directory = (folder("d"), file("d/f", b"new"))
    whiteout = (file(".wh.d"),)
    layer = _unpacked(tmp_path, *(whiteout + directory if first else directory + whiteout))
    assert (layer / "d/f").read_bytes() == b"new"
    assert _is_opaque(layer / "d")


def test_an_opaque_directory_gets_the_attribute_of_overlays_and_keeps_its_own_files(tmp_path: Path) -> None:
    layer = _unpacked(tmp_path, folder("d"), file("d/f"), file("d/.wh..wh..opq"), folder("e"), file("e/.wh..wh.plnk"))
    assert _is_opaque(layer / "d")
    assert os.listdir(layer / "d") == ["f"]
    assert not _is_opaque(layer / "e")
    assert os.listdir(layer / "e") == []


def test_a_directory_may_become_a_file_and_the_other_way_round(tmp_path: Path) -> None:
    layer = _unpacked(
        tmp_path,
        *(folder("a"), file("a/old"), file("a", b"file")),
        *(file("b"), folder("b", mode=0o700), file("b/new")),
        *(folder("c"), file("c/old"), symlink("c", "b"), folder("c"), file("c/new")),
    )
    assert (layer / "a").read_bytes() == b"file"
    assert _is_opaque(layer / "b")
    assert stat.S_IMODE((layer / "b").stat().st_mode) == 0o700
    assert os.listdir(layer / "c") == ["new"]
    assert os.listdir(layer / "b") == ["new"]


def test_the_last_of_several_entries_of_a_name_counts(tmp_path: Path) -> None:
    layer = _unpacked(
        tmp_path, file("f", b"first"), hard_link("g", "f"), file("f", b"second"), folder("d", mode=0o700), folder("d")
    )
    assert (layer / "f").read_bytes() == b"second"
    assert (layer / "g").read_bytes() == b"first"
    assert stat.S_IMODE((layer / "d").stat().st_mode) == 0o755


def test_a_file_behind_a_link_lies_where_the_link_leads_within_the_layer(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    layer = _unpacked(
        tmp_path,
        *(folder("usr/lib"), symlink("lib", "usr/lib"), file("lib/inside", b"1")),
        *(symlink("absolute", str(outside)), file("absolute/f", b"2")),
        *(symlink("up", "../../../../.."), file(f"up{outside}/g", b"3")),
        *(symlink("usr/above", "../.."), file("usr/above/h", b"4")),
    )
    assert (layer / "usr/lib/inside").read_bytes() == b"1"
    assert (layer / str(outside)[1:] / "f").read_bytes() == b"2"
    assert (layer / str(outside)[1:] / "g").read_bytes() == b"3"
    assert (layer / "h").read_bytes() == b"4"
    assert os.listdir(outside) == []


def test_directories_without_an_entry_are_those_of_lower_layers_but_never_of_links(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir(mode=0o700)
    lower = _unpacked(
        tmp_path,
        folder("tmp", mode=0o1777, modified=5),
        folder("d", mode=0o711),
        symlink("s", str(tmp_path / "outside")),
    )
    top = tmp_path / "top"
    top.mkdir()
    members = (file("tmp/f"), file("d/e/f"), file("s/f"), file("new/f"))
    unpack(io.BytesIO(archive(*members)), top, keeps_owners=_IS_ROOT, below=[tmp_path / "outside", lower])
    modes = {name: stat.S_IMODE((top / name).stat().st_mode) for name in ("tmp", "d", "d/e", "s", "new")}
    assert modes == {"tmp": 0o1777, "d": 0o711, "d/e": 0o755, "s": 0o755, "new": 0o755}
    assert (top / "tmp").stat().st_mtime == 5


_HOSTILE = {
    "a name with ..": [file("../evil", b"x")],
    "a name with .. further on": [folder("a"), file("a/../../evil", b"x")],
    "a hard link to outside": [hard_link("l", "../../victim")],
    "a hard link to an absolute name": [hard_link("l", "/victim")],
    "a hard link through a link": [symlink("s", "/"), hard_link("l", "s/etc/passwd")],
    "a hard link to a directory": [folder("d"), hard_link("l", "d")],
    "a hard link to what a whiteout hides": [file(".wh.f"), hard_link("l", "f")],
    "a link to itself": [symlink("s", "s"), file("s/f")],
    "links in a circle": [symlink("a", "b"), symlink("b", "a"), file("a/f")],
    "a file below a file": [file("f"), file("f/g")],
    "a whiteout of ..": [folder("d"), file("d/.wh...")],
    "a whiteout of .": [folder("d"), file("d/.wh..")],
    "a whiteout of nothing": [file(".wh.")],
    "a file for the root": [file("./", b"x")],
    "a link for the root": [symlink(".", "/etc")],
    "an unknown type": [Member("f", kind=b"Z")],
    "a name that is too long": [file("n" * 300)],
    "a path that is too deep": [file("d/" * 300 + "f")],
    "a path that is too long": [file(("n" * 200 + "/") * 30 + "f")],
    "a null character": [file("f", records={"path": "a\0b"})],
    "an empty link": [symlink("s", "")],
    "an owner beyond all": [file("f", records={"uid": "99999999999999999999"})],
    "a time beyond all": [file("f", records={"mtime": "99999999999999999999"})],
    "a directory with a time beyond all": [folder("d", records={"mtime": "99999999999999999999"})],
    "an attribute with a null character": [folder("d", records={"SCHILY.xattr.user.a\0b": "c"})],
}


@pytest.mark.parametrize("members", _HOSTILE.values(), ids=_HOSTILE.keys())
def test_a_hostile_archive_is_refused_and_harms_nothing(tmp_path: Path, members: list[Member]) -> None:
    (tmp_path / "victim").write_text("whole")
    before = sorted(os.listdir(tmp_path))
    if "uid" in members[0].records and not _IS_ROOT:
        pytest.skip("owners are not kept")
    with pytest.raises(ArchiveError):
        _unpacked(tmp_path, *members)
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "layer"])
    assert (tmp_path / "victim").read_text() == "whole"
    assert (tmp_path / "victim").stat().st_nlink == 1


def test_writing_through_links_of_every_kind_stays_inside(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("whole")
    _unpacked(
        tmp_path,
        *(symlink("s", str(victim)), file("s", b"over")),
        *(symlink("t", str(victim)), hard_link("u", "t"), file("u", b"over")),
        *(symlink("v", "../victim"), file("v", b"over", mode=0o777, records={"SCHILY.xattr.user.a": "b"})),
        *(symlink("w", str(tmp_path)), folder("w", mode=0o777), file("w/victim", b"over")),
        *(symlink("x", str(tmp_path)), file("x/.wh.victim"), file("x/.wh..wh..opq")),
    )
    assert victim.read_text() == "whole"
    assert stat.S_IMODE(victim.stat().st_mode) != 0o777
    assert os.listxattr(tmp_path) == []


def test_devices_are_left_out(tmp_path: Path) -> None:
    layer = _unpacked(
        tmp_path,
        Member("disk", kind=tarfile.BLKTYPE, device=(8, 0)),
        Member("null", kind=tarfile.CHRTYPE, device=(1, 3)),
        Member("whiteout", kind=tarfile.CHRTYPE, device=(0, 0)),
        file("f"),
    )
    assert os.listdir(layer) == ["f"]


def test_a_bomb_of_size_or_of_entries_is_stopped_early(tmp_path: Path) -> None:
    packed = zstandard.ZstdCompressor().compress(archive(file("zeros", bytes(64 << 20))))
    assert len(packed) < 100_000
    with pytest.raises(ArchiveError, match="of more than"):
        _unpack(tmp_path, packed, Limits(most_bytes=8 << 20))
    assert not (tmp_path / "layer/zeros").exists()
    trailing = archive(file("f")) + bytes(64 << 20)
    with pytest.raises(ArchiveError, match="is larger than"):
        unpack(io.BytesIO(trailing), tmp_path / "layer", keeps_owners=False, limits=Limits(most_bytes=8 << 20))
    many = archive(*(file(f"f{number}") for number in range(100)))
    with pytest.raises(ArchiveError, match="more than 50 entries"):
        unpack(io.BytesIO(many), tmp_path / "layer", keeps_owners=False, limits=Limits(most_entries=50))
    assert len(os.listdir(tmp_path / "layer")) <= 51


def test_extended_headers_cannot_fill_the_memory(tmp_path: Path) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 4 << 30
    with pytest.raises(ArchiveError, match="extended header is larger"):
        _unpack(tmp_path, header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


def test_global_headers_and_attributes_cannot_fill_the_memory(tmp_path: Path) -> None:
    def header(number: int) -> bytes:
        record = f"key{number}={'x' * 900_000}\n"
        content = f"{len(record) + 7} {record}".encode()
        block = tarfile.TarInfo("g")
        block.type, block.size = tarfile.XGLTYPE, len(content)
        return block.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)

    assert os.listdir(_unpack(tmp_path, header(0) + archive(file("f")))) == ["f"]
    with pytest.raises(ArchiveError, match="global headers are larger"):
        unpack(io.BytesIO(header(0) + header(1)), tmp_path / "layer", keeps_owners=False)
    # Nothing of an attribute that the file system cannot take is kept until the end.
    large = {"SCHILY.xattr.user.large": "x" * 60_000, "SCHILY.xattr.user.small": "s"}
    many = archive(*(folder(f"d{number}", records=large) for number in range(300)))
    tracemalloc.start()
    unpack(io.BytesIO(many), tmp_path / "layer", keeps_owners=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    assert os.getxattr(tmp_path / "layer/d0", "user.small") == b"s"


def test_a_layer_leaves_room_for_others(tmp_path: Path) -> None:
    with pytest.raises(NoSpaceError):
        _unpacked(tmp_path, file("f"), limits=Limits(free_bytes=1 << 60))


@pytest.mark.parametrize("place", [100, 600, 1500])
def test_a_damaged_archive_is_refused(tmp_path: Path, place: int) -> None:
    content = bytearray(archive(file("a", b"x" * 600), file("b", b"y" * 600), form=tarfile.USTAR_FORMAT))
    content[place if place != 600 else 1536 + 100] ^= 0xFF
    if place == 1500:
        del content[1700:]
    with pytest.raises(ArchiveError):
        _unpack(tmp_path, bytes(content))


def test_an_unknown_compression_is_named(tmp_path: Path) -> None:
    with pytest.raises(CompressionError, match="xz"):
        _unpack(tmp_path, b"\xfd7zXZ\x00" + bytes(100))
