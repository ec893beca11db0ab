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
