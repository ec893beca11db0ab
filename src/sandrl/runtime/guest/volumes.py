"""The volumes of a sandbox: directories of its own, shown where they are mounted."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

from sandrl.runtime.guest import syscalls as sc

HOME = "/run/sandrl/volumes"
Mount: TypeAlias = "dict[str, Any]"
"""`volume` (its name), `path` (where it is shown), `sub_path` (which part of it) and `read_only`."""


class VolumeError(OSError):
    """A sandbox cannot have a volume where it is asked for."""


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
    """Show what was prepared below `root`, where no program runs yet.

    Raises:
        VolumeError: If a volume would hide processes, or what they have.
    """
    for mount, descriptor in prepared:
        # An image may have links on the way; attaching follows none at its end.
        target = os.path.realpath(root + mount["path"])
        if f"{target}/".startswith("/proc/"):
            raise VolumeError(f"no volume can be mounted at {mount['path']}: it is in /proc")
        os.makedirs(target, exist_ok=True)
        sc.attach_mount(descriptor, target)
        os.close(descriptor)
        if mount["read_only"]:
            sc.mount("none", target, flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)
