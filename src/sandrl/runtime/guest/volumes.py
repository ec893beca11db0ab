"""The volumes of a sandbox: directories of its own, shown where they are mounted."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from sandrl.runtime.guest import syscalls as sc

HOME = "/run/sandrl/volumes"
Mount: TypeAlias = "dict[str, Any]"
"""`volume` (its name), `path` (where it is shown), `sub_path` (which part of it) and `read_only`."""


def prepare(mounts: list[Mount], home: str) -> list[tuple[Mount, int]]:
    """Make each volume, once, in `home`; a descriptor of each mount is attached later, the outer ones first."""
    prepared = []
    for mount in sorted(mounts, key=lambda mount: len(mount["path"])):
        source = f"{home}/{mount['volume']}/{mount['sub_path']}"
        os.makedirs(source, exist_ok=True)
        os.chmod(source, 0o777)  # for every user of an image
        prepared.append((mount, sc.clone_mount(source)))
    return prepared


def attach(prepared: list[tuple[Mount, int]], root: str = "") -> None:
    """Show what was prepared below `root`."""
    for mount, descriptor in prepared:
        target = root + mount["path"]
        os.makedirs(target, exist_ok=True)
        sc.attach_mount(descriptor, target)
        os.close(descriptor)
        if mount["read_only"]:
            sc.mount("none", target, flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)
