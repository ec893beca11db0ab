"""States are read file by file, whoever has filled them, and others are made of them."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.states import directory, file, hard_link, kept, link, removed

from sandrl.errors import InputError
from sandrl.sandboxes import State
from sandrl.trials.changes import Change, ChangeKind, changes_of, contents_of, state_with, state_without
from sandrl.trials.state import find_state


def _plain(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


def test_files_links_and_what_was_removed_are_changes(tmp_path: Path) -> None:
    state = kept(
        tmp_path,
        [
            directory("./app"),
            file("./app/tool", b"#!/bin/sh\n", mode=0o4755, uid=7, gid=8, mtime=9),
            link("./app/link", "tool"),
            hard_link("./app/other", "./app/tool"),
            removed("./app/.wh.gone"),
            removed("./app/.wh..wh..opq"),
        ],
    )
    assert list(changes_of(state.path)) == [
        Change("/app/tool", ChangeKind.FILE, 0o4755, 7, 8, 10, 9),
        Change("/app/link", ChangeKind.LINK, 0o777, target="tool"),
        Change("/app/gone", ChangeKind.REMOVED),
    ]
    assert contents_of(state.path, {"/app/tool", "/app/link", "/app/gone", "/none"}, 10) == {
        "/app/tool": b"#!/bin/sh\n"
    }


@pytest.mark.parametrize(
    "change",
    [
        Change("/a/new", mode=0o640, uid=1, gid=2, size=3, modified=4),
        Change("/a/line\nfeed and ünicode", size=3),
        Change(f"/{'long/' * 60}name", size=3),
        Change("/a/link", ChangeKind.LINK, 0o777, target="../nowhere"),
        Change("/a/gone", ChangeKind.REMOVED),
    ],
)
def test_a_state_over_another_one_has_one_change(tmp_path: Path, change: Change) -> None:
    below = kept(tmp_path, [file("./a/old", b"1")])
    content = b"abc" if change.kind is ChangeKind.FILE else b""
    state = state_with(below, change, content)
    path = state.path
    assert list(changes_of(path)) == [change]
    assert contents_of(path, {change.path}, 1 << 20) == ({change.path: content} if content else {})
    assert path.name == f"{hashlib.sha256(_plain(path)).hexdigest()}.over-{below.digest}.tar.gz"
    assert state_with(below, change, content) == state
    assert find_state(tmp_path, state.digest, "image") == state


def test_a_change_can_be_left_out_of_a_state(tmp_path: Path) -> None:
    members = [file("./a/one", b"1" * 700), file("./a/öther" * 30, b"2"), removed("./b/.wh.gone"), file("./c", b"3")]
    state = kept(tmp_path, members)
    for path in ("/a/one", "/b/gone", "/" + ("./a/öther" * 30).removeprefix("./"), "/c"):
        left = list(changes_of(state_without(state, path).path))
        assert left == [each for each in changes_of(state.path) if each.path != path]
    assert len(list(changes_of(state.path))) == 4
    assert _plain(state_without(state, "/none").path) == _plain(state.path)


def test_names_that_lead_out_and_other_kinds_are_no_changes(tmp_path: Path) -> None:
    device = tarfile.TarInfo("./dev/sda")
    device.type = tarfile.BLKTYPE
    sparse = tarfile.TarInfo("./sparse")
    sparse.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,1"}
    sparse.pax_headers["GNU.sparse.size"] = str(1 << 50)
    members = [file("../outside", b"1"), file("./a/../../b", b"2"), (device, b""), (sparse, b""), file("/abs", b"3")]
    state = kept(tmp_path, members)
    assert [each.path for each in changes_of(state.path)] == ["/abs"]
    assert contents_of(state.path, {"/outside", "/b", "/sparse", "/abs"}, 1 << 20) == {"/abs": b"3"}


def _huge_header() -> bytes:
    member = tarfile.TarInfo("a")
    member.pax_headers = {"comment": "x" * (4 << 20)}
    return member.tobuf(tarfile.PAX_FORMAT)


def _huge_file() -> bytes:
    member = tarfile.TarInfo("a")
    member.size = 1 << 40
    return member.tobuf(tarfile.PAX_FORMAT)


def _back() -> bytes:
    # A size below zero leads back to the header, which would be read forever.
    member = tarfile.TarInfo("a")
    member.size = 512
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT)[:512])
    header[124:136] = b"\xff" + (-512).to_bytes(11, "big", signed=True)
    checksum = sum(header[:148]) + sum(header[156:]) + 8 * 32
    header[148:156] = b"%06o\0 " % checksum
    return bytes(header)


@pytest.mark.parametrize("plain", [_huge_header(), _huge_file() + b"\0" * 1024, _back(), b"no archive" * 100])
def test_a_made_up_archive_is_damaged(tmp_path: Path, plain: bytes) -> None:
    path = tmp_path / "state.tar.gz"
    path.write_bytes(gzip.compress(plain))
    with pytest.raises(InputError, match="is damaged"):
        list(changes_of(path))
    with pytest.raises(InputError, match="is damaged"):
        contents_of(path, {"/a", "/b"}, 1 << 20)


def test_what_is_larger_than_was_wanted_is_not_read(tmp_path: Path) -> None:
    state = kept(tmp_path, [file("./a", b"12345"), file("./b", b"1")])
    assert contents_of(state.path, {"/a", "/b"}, 4) == {"/b": b"1"}


def test_a_cut_archive_is_damaged(tmp_path: Path) -> None:
    state = kept(tmp_path, [file("./a", bytes(range(256)) * 4096)])
    state.path.write_bytes(state.path.read_bytes()[:-600])
    with pytest.raises(InputError, match="is damaged"):
        contents_of(state.path, {"/a"}, 1 << 20)
    with pytest.raises(InputError, match="is damaged"):
        state_without(state, "/a")
    assert [each.name for each in tmp_path.iterdir()] == [state.path.name]


def test_times_and_ids_of_strangers_do_not_stop_a_change(tmp_path: Path) -> None:
    odd = tarfile.TarInfo("./odd")
    odd.mtime, odd.uid = 1 << 60, 1 << 40
    odd.pax_headers = {"mtime": "-1e300"}
    state = kept(tmp_path, [(odd, b"")])
    (change,) = changes_of(state.path)
    assert change.modified == 0
    assert list(changes_of(state_with(state, change).path)) == [change]


def test_an_empty_state_has_no_changes(tmp_path: Path) -> None:
    empty: Sequence[tuple[tarfile.TarInfo, bytes]] = []
    state: State = kept(tmp_path, empty)
    assert not list(changes_of(state.path))
    assert io.BytesIO(_plain(state.path)).read(1) == b"\0"
