"""The scratch volumes of a sandbox: directories of its own, which its container sees at the paths of its mounts."""

from __future__ import annotations

import os
import re

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.host.launcher import VolumeMount
from sandrl.runtime.server import faults
from sandrl.runtime.server.resources import parse_quantity

_PLACE = "sandbox.spec.volumes"
_CONTAINER = "sandbox.spec.containers[0]"
_OWN = "/run/sandrl/"  # what the runtime keeps in a sandbox
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")


def total_bytes(spec: pb.SandboxSpec) -> int:
    """What the volumes of a sandbox add to its limit on files.

    Raises:
        faults.Fault: If a size is malformed.
    """
    try:
        return sum(int(parse_quantity(each.scratch.size)) for each in spec.volumes if each.scratch.size)
    except ValueError as error:
        raise faults.invalid(str(error), _PLACE) from error


def are_on_disk(spec: pb.SandboxSpec) -> bool | None:
    """Whether the volumes of a sandbox are to be on disk; None if that does not matter.

    Raises:
        faults.Fault: If both are asked for, or volumes that are to be in memory do not fit there.
    """
    media = {each.scratch.medium for each in spec.volumes if each.HasField("scratch")}
    fits = total_bytes(spec) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if pb.STORAGE_MEDIUM_MEMORY in media:
        if not fits:
            raise faults.invalid("scratch volumes larger than this machine's memory", _PLACE)
        if pb.STORAGE_MEDIUM_DISK in media:
            raise faults.unsupported(f"volumes in memory beside volumes on disk ({_PLACE})")
        return False
    return True if pb.STORAGE_MEDIUM_DISK in media or not fits else None


def mounts(spec: pb.SandboxSpec, container: pb.Container) -> tuple[VolumeMount, ...]:
    """Where a container sees which volume; the plan checks the paths of mounts.

    Raises:
        faults.Fault: If a name or a path in a volume is malformed, a volume is missing, or a file of the request is in
            a volume that is read-only.
    """
    names = [volume.name for volume in spec.volumes]
    if len(set(names)) < len(names) or not all(map(_NAME.match, names)):
        raise faults.invalid("each volume needs a name of its own, of letters, digits, `.`, `_` and `-`", _PLACE)
    found = tuple(map(_mount, container.volume_mounts))
    if len({mount.path for mount in found}) < len(found):
        raise faults.invalid("two volumes are mounted at one path", f"{_CONTAINER}.volume_mounts")
    for mount in found:
        if mount.volume not in names:
            message = f"the sandbox has no volume {mount.volume!r}"
            raise faults.invalid(message, f"{_CONTAINER}.volume_mounts.volume")
        if f"{mount.path}/".startswith(_OWN) or _OWN.startswith(f"{mount.path}/"):
            raise faults.invalid(f"no volume can be mounted at {mount.path}", f"{_CONTAINER}.volume_mounts.mount_path")
        if mount.read_only and any(file.path.startswith(f"{mount.path}/") for file in container.files):
            raise faults.invalid(f"the volume at {mount.path} is read-only", f"{_CONTAINER}.files")
    return found


def place(mounts: tuple[VolumeMount, ...], volume: str) -> str:
    """Where in a sandbox a volume can be read and written as a whole.

    Raises:
        faults.Fault: If nowhere.
    """
    for mount in mounts:
        if mount.volume == volume and not mount.sub_path and not mount.read_only:
            return mount.path
    message = f"the sandbox has no volume {volume!r} that is mounted whole and writable"
    raise faults.Fault(grpc.StatusCode.FAILED_PRECONDITION, message, reason="CWSANDBOX_FSS_NOT_SUPPORTED")


def restores(spec: pb.SandboxSpec, mounts: tuple[VolumeMount, ...]) -> tuple[tuple[str, str], ...]:
    """The snapshots that volumes start with, and where in the sandbox those are.

    Raises:
        faults.Fault: As `place`.
    """
    wanted = [(each.scratch.restore_from_snapshot_id, each.name) for each in spec.volumes]
    return tuple((name, place(mounts, volume)) for name, volume in wanted if name)


def _mount(given: pb.VolumeMount) -> VolumeMount:
    if given.sub_path and any(part in ("", ".", "..") or "\0" in part for part in given.sub_path.split("/")):
        raise faults.invalid(
            f"{given.sub_path!r} is not a relative path in a volume", f"{_CONTAINER}.volume_mounts.sub_path"
        )
    return VolumeMount(given.volume, given.mount_path.rstrip("/"), given.sub_path, given.read_only)
