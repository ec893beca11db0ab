"""Which host uids a daemon takes: none that anybody else has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandrl.runtime.host import users
from sandrl.runtime.host.users import BLOCK, HostUsers, HostUsersError, Window, find_users

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root takes a range of host uids")


def test_a_block_is_one_sandboxs_until_it_is_given_back_and_rests_the_longest() -> None:
    own = HostUsers("", 0, Window(1 << 20, 4 * BLOCK))
    blocks = [own.take() for _ in range(4)]
    assert blocks == [1, 2, 3, None]  # block 0 is the fork server's
    own.give_back(2)
    own.give_back(1)
    assert [own.take(), own.take()] == [2, 1]
    assert own.host_uid(3) == (1 << 20) + 3 * BLOCK


def ranges(own: HostUsers, block: int) -> list[range]:
    lines = own.ids(block, of_image=True)
    return [range(outside, outside + count) for _, outside, count in lines]


def test_each_sandbox_from_an_image_of_a_root_daemon_has_ids_that_no_other_has() -> None:
    own = HostUsers("", 0, Window(0x7800_0000, 4096 * 1024))
    assert own.ids(1, of_image=True) == [[0, own.inner_uid(1), 1023], [65534, own.inner_uid(1) + 1023, 1]]
    used = [number for block in (1, 2, 4095) for each in ranges(own, block) for number in (each[0], each[-1])]
    # The only id of a sandbox of the host's system is one of its block.
    assert own.ids(2, of_image=False) == [[1000, own.inner_uid(2), 1]]
    assert len(set(used)) == len(used) - 3  # `nobody` is a range of one
    assert max(used) < users.INNER_START + 4096 * 1024


def test_with_ids_of_subuid_user_0_owns_the_files_and_the_others_are_no_sandboxs_of_the_hosts_system() -> None:
    own = HostUsers("", 1001, Window(100_000, 1 << 16), uses_newuidmap=True)
    first, *others = own.ids(7, of_image=True)
    assert first == [0, 1000, 1]
    shared = [number for each in ranges(own, 7)[1:] for number in (each[0], each[-1])]
    blocks = []
    while (block := own.take()) is not None:
        blocks.append(block)
    assert min(shared) > own.inner_uid(max(blocks))
    assert [inside for inside, _, _ in others] == [1, 65534]


def test_one_shared_id_is_user_0_of_an_image_and_no_cells_user_0_of_an_ordinary_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = HostUsers("", 1001)
    assert own.ids(0, of_image=True) == [[0, 1000, 1]]
    for uid, inside in ((1001, 1000), (0, 0)):
        monkeypatch.setattr(os, "getuid", lambda uid=uid: uid)
        assert own.ids(0, of_image=True, for_cells=True) == [[inside, 1000, 1]]


@needs_root
@pytest.mark.parametrize(
    "text", ["", "x", "5", "5:", "1:2", "0:65536", "5000:16", "4294967290:64", "-5000:64", "5000:-64"]
)
def test_a_range_that_is_none_is_refused_by_name(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(users.VARIABLE, text)
    if not text:
        find_users(tmp_path).close()
        return
    with pytest.raises(HostUsersError, match=f"{users.VARIABLE}={text}"):
        find_users(tmp_path)


@needs_root
def test_two_daemons_never_have_the_same_ids(tmp_path: Path) -> None:
    found = [find_users(tmp_path) for _ in range(4)]
    windows = [each.window for each in found if each.window]
    try:
        assert len(windows) == 4
        assert not any(a.overlaps(b) for a in windows for b in windows if a is not b)
    finally:
        for each in found:
            each.close()


@needs_root
def test_a_range_with_ids_that_somebody_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "_assigned", lambda: [Window(2_140_000_100, 1)])
    monkeypatch.setenv(users.VARIABLE, "2140000000:256")
    with pytest.raises(HostUsersError, match="are in use"):
        find_users(tmp_path)
    monkeypatch.setenv(users.VARIABLE, "2140001024:256")
    find_users(tmp_path).close()


@needs_root
def test_no_window_is_chosen_that_overlaps_what_files_assign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = Window(users._FREE_FROM, users._FREE_TO - users._FREE_FROM - (1 << 16))
    monkeypatch.setattr(users, "_assigned", lambda: [most])
    found = find_users(tmp_path)
    try:
        assert found.window is not None
        assert found.window.start >= users._FREE_TO - (1 << 16) or found.window.start < users._FREE_FROM
    finally:
        found.close()
