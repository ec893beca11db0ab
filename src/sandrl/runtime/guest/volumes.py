"""The volumes of a sandbox: directories of its own, shown where they are mounted."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from sandrl.runtime.guest import syscalls as sc

HOME = "/run/sandrl/volumes"
Mount: TypeAlias = "dict[str, Any]"
"""`volume` (its name), `path` (where it is shown), `sub_path` (which part of it) and `read_only`."""


def show(mounts: list[Mount], home: str, root: str) -> None:
    """Make each volume, once, in `home`, and show it below `root`; the outer ones first."""
    for mount in sorted(mounts, key=lambda mount: len(mount["path"])):
        source, target = f"{home}/{mount['volume']}/{mount['sub_path']}", root + mount["path"]
        for directory in (source, target):
            os.makedirs(directory, exist_ok=True)
        sc.mount(source, target, flags=sc.MS_BIND)
        if mount["read_only"]:
            sc.mount("none", target, flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)
