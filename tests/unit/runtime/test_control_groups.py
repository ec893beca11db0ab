"""Where control groups are looked for: trees of files stand in for hierarchies that this machine may not have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandrl.runtime.host import control_groups
from sandrl.runtime.host.control_groups import _Mount


def group(directory: Path, *, controllers: str = "cpu memory pids", handed_on: str = "") -> Path:
    """A directory that looks like a group of version 2."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cgroup.controllers").write_text(controllers)
    (directory / "cgroup.subtree_control").write_text(handed_on)
    (directory / "cgroup.type").write_text("domain")
    return directory


def mounted(place: Path, version: int, options: str = "", root: str = "/") -> _Mount:
    return _Mount(place, root, version, frozenset(options.split(",")))


def look(monkeypatch: pytest.MonkeyPatch, mounts: list[_Mount], own: dict[str, str]) -> list[tuple[int, list[Path]]]:
    monkeypatch.setattr(control_groups, "_mounts", lambda: iter(mounts))
    monkeypatch.setattr(control_groups, "_own_groups", lambda: own)
    return [(version, sorted(set(parents.values()))) for version, parents in control_groups._candidates()]


def test_the_nearest_group_that_hands_both_controllers_on_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = group(tmp_path / "user.slice", handed_on="cpu memory pids")
    delegated = group(user / "user@1000.service" / "app.slice", handed_on="memory pids")
    group(user / "user@1000.service", handed_on="pids")
    (user / "user@1000.service" / "cgroup.controllers").write_text("pids")
    group(delegated / "terminal.scope", controllers="pids")
    own = {"": "/user.slice/user@1000.service/app.slice/terminal.scope"}
    assert look(monkeypatch, [mounted(tmp_path, 2)], own) == [(2, [delegated]), (2, [user])]


def test_the_root_of_all_groups_is_not_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    (tmp_path / "cgroup.subtree_control").write_text("")
    assert look(monkeypatch, [mounted(tmp_path, 2)], {"": "/"}) == []
    assert (tmp_path / "cgroup.subtree_control").read_text() == ""


def test_each_hierarchy_of_version_1_has_its_own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = [mounted(tmp_path / "memory", 1, "rw,memory"), mounted(tmp_path / "pids", 1, "rw,pids")]
    own = {"memory": "/jobs/7", "pids": "/"}
    assert look(monkeypatch, mounts, own) == [(1, [tmp_path / "memory" / "jobs" / "7", tmp_path / "pids"])]
    assert look(monkeypatch, mounts[:1], own) == []


def test_a_container_sees_its_own_part_of_a_hierarchy(tmp_path: Path) -> None:
    mount = mounted(tmp_path, 1, root="/docker/abc")
    assert mount.directory_of("/docker/abc") == tmp_path
    assert mount.directory_of("/docker/abc/job") == tmp_path / "job"
    assert mount.directory_of("/docker/abcdef") is None


def test_only_groups_of_dead_processes_of_this_namespace_are_abandoned() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = f"sandrl-{control_groups._owner(process.pid)}-c0ffee"
    assert not control_groups._is_abandoned(name)
    process.communicate(b"\n")
    assert control_groups._is_abandoned(name)
    own = os.stat("/proc/self/ns/pid").st_ino
    assert not control_groups._is_abandoned(name.replace(str(own), str(own + 1)))
    assert not control_groups._is_abandoned("sandrl-of-somebody-else")


def test_a_number_that_another_process_has_by_now_is_not_the_owner() -> None:
    name = f"sandrl-{control_groups._namespace()}-{os.getpid()}-1-c0ffee"
    assert control_groups._is_abandoned(name)
