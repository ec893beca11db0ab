"""Turns the sandbox spec of a request into a plan for the host, and refuses what a local machine cannot provide."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime import limits
from sandrl.runtime.guest import rootfs
from sandrl.runtime.host.images import Image, StoreImage
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.server import egress, faults, resources, volumes
from sandrl.runtime.server.probe import StartupProbe

# What the SDK sends when the caller names no command. It only keeps a container alive, which a sandbox of ours
# does by itself, so it is never started: that saves a shell and a sleep per sandbox.
KEEP_ALIVE = ("/bin/sh", ("-c", 'trap "exit 0" TERM INT; sleep infinity & wait'))

_CONTEXT = "sandbox.spec.containers[0].security_context"
_FIXED = frozenset((*rootfs.TOP_LEVEL, "usr", "etc", "dev", "proc", "sys"))
_NUMBER = re.compile(r"[0-9]{1,3}\Z")
_OVERLAY_NAME = re.compile(r"[0-9a-f]{16,64}$")


@dataclass(frozen=True)
class Plan:
    """What one sandbox needs.

    Attributes:
        main: Its main program, or None to keep it alive without one.
        files: Path and content, to write before anything runs.
        probe: What must succeed before it counts as started, if anything.
        restores: File-system snapshots, and the directories to unpack them in.
    """

    boot: BootRequest
    main: tuple[str, ...] | None
    environment: dict[str, str]
    directory: str
    files: tuple[tuple[str, bytes], ...]
    container: str
    lifetime_seconds: int
    probe: StartupProbe | None = None
    restores: tuple[tuple[str, str], ...] = ()


def container_of(spec: pb.SandboxSpec) -> pb.Container:
    """The container of a sandbox.

    Raises:
        faults.Fault: If there is not exactly one.
    """
    if len(spec.containers) != 1:
        raise faults.unsupported("a sandbox with other than one container (at most 1 container)")
    return spec.containers[0]


def make_plan(spec: pb.SandboxSpec, image: Image | StoreImage, storage_bytes: int = 0) -> Plan:
    """Decide how to serve a spec that has passed `fields.check`, with the image that it names.

    `storage_bytes` is what a sandbox from an image may write to disk unless it says so itself; 0: in memory.

    Raises:
        faults.Fault: If it asks for what a local machine cannot give, or is malformed.
    """
    container = container_of(spec)
    mounts = volumes.mounts(spec, container)
    memory_bytes, processors = resources.of_container(container)
    overlay = _overlay(spec)
    environment = image.environment_of_programs(has_overlay=overlay is not None)
    environment |= dict(container.environment_variables)
    files = tuple((file.path, bytes(file.content)) for file in container.files)
    cells = _cells(spec)
    if cells:
        environment.setdefault("HOME", f"/home/{rootfs.USER_NAME}")
    directory = container.working_dir or (rootfs.WORKING_DIRECTORY if cells else image.directory)
    parents = [path.rpartition("/")[0] or "/" for path, _ in files]
    paths = [mount.path for mount in mounts]
    if image.layers is None:
        _writable(paths)
        directories = _writable(parents) + (() if _is_fixed(directory) else _writable([directory]))
    else:
        directories = _absolute([*parents, directory])
        _absolute(paths)
        if paths and _cells(spec):
            raise faults.unsupported("a volume of a worker from an image (sandbox.spec.volumes)")
        if overlay is not None:
            raise faults.invalid("packages are installed for the host's Python", "sandbox.spec.annotations")
    storage_bytes = _storage(spec, image, storage_bytes)
    # Cells divide what is given for each of them.
    amounts = limits.of_memory(limits.MEMORY_BYTES if cells else memory_bytes)
    boot = BootRequest(
        image=image.name,
        layers=image.layers,
        user=_user(container.security_context, image),
        overlay=overlay,
        directories=directories,
        memory_bytes=memory_bytes,
        disk_bytes=limits.DISK_BYTES + (0 if storage_bytes else volumes.total_bytes(spec)),
        storage_bytes=storage_bytes,
        processes=amounts["processes"],
        sockets=amounts["sockets"],
        open_files=amounts["open_files"],
        cells=cells,
        mounts=mounts,
        processors=processors,
        network=egress.network_of(spec),
        pretends_owners=image.layers is not None and bool(spec.annotations.get(limits.OWNERS_ANNOTATION)),
    )
    if cells and boot.network is not None:
        raise faults.unsupported("a network of a worker (sandbox.spec.network): cells have none")
    return Plan(
        boot=_with_privileges(boot, container.security_context),
        main=_main(container, image),
        environment=environment,
        directory=directory,
        files=files,
        container=container.name or "main",
        lifetime_seconds=min(spec.max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS, limits.MAX_LIFETIME_SECONDS),
        probe=StartupProbe.of(container) if container.HasField("startup_probe") else None,
        restores=volumes.restores(spec, mounts),
    )


def _user(context: pb.SecurityContext, image: Image | StoreImage) -> str:
    if image.layers is None:
        for name in ("run_as_user", "run_as_group"):
            wanted = getattr(context, name)
            if context.HasField(name) and wanted != rootfs.USER_ID:
                raise faults.unsupported(f"a user {wanted} ({_CONTEXT}.{name}) in the host's system")
        return image.user
    user, _, group = image.user.partition(":")
    if context.HasField("run_as_user"):
        user, group = str(context.run_as_user), ""
    if context.HasField("run_as_group"):
        user, group = user or "0", str(context.run_as_group)
    return f"{user}:{group}" if group else user


def _with_privileges(boot: BootRequest, context: pb.SecurityContext) -> BootRequest:
    dropped, added = (
        {name.upper().removeprefix("CAP_") for name in names}
        for names in (context.capabilities_drop, context.capabilities_add)
    )
    if boot.layers is None:
        if added or context.allow_privilege_escalation:
            name = "capabilities_add" if added else "allow_privilege_escalation"
            raise faults.unsupported(f"privileges of programs ({_CONTEXT}.{name}) in the host's system")
        return boot
    if beyond := sorted(added.difference(boot.capabilities)):
        raise faults.unsupported(f"the capability {beyond[0]} ({_CONTEXT}.capabilities_add)")
    given = added | (set() if "ALL" in dropped else {*boot.capabilities} - dropped)
    return dataclasses.replace(
        boot,
        capabilities=tuple(name for name in boot.capabilities if name in given),
        gains_privileges=context.allow_privilege_escalation or not context.HasField("allow_privilege_escalation"),
        read_only=context.read_only_root_filesystem,
    )


def _main(container: pb.Container, image: Image | StoreImage) -> tuple[str, ...] | None:
    if (container.command, tuple(container.args)) == KEEP_ALIVE:
        return None
    # As in a container: a command replaces the entrypoint of the image, and arguments alone replace its command.
    return (container.command, *container.args) if container.command else image.command(container.args) or None


def _is_fixed(path: str) -> bool:
    return path == "/" or (path.startswith("/") and path.split("/")[1] in _FIXED)


def _absolute(paths: Sequence[str]) -> tuple[str, ...]:
    for path in paths:
        if not path.startswith("/") or "\0" in path or any(part in (".", "..") for part in path.split("/")):
            raise faults.invalid(f"{path!r} is not an absolute path", "sandbox.spec.containers[0]")
    return tuple(dict.fromkeys(path for path in paths if path.strip("/")))


def _writable(paths: Sequence[str]) -> tuple[str, ...]:
    _absolute(paths)
    for path in paths:
        if _is_fixed(path):
            raise faults.invalid(f"{path!r} is read-only in a sandbox", "sandbox.spec.containers[0]")
    return tuple(dict.fromkeys(path for path in paths if path.lstrip("/") not in rootfs.WRITABLE))


def _overlay(spec: pb.SandboxSpec) -> str | None:
    name = str(spec.annotations.get(limits.PACKAGES_ANNOTATION, ""))
    if name and not _OVERLAY_NAME.match(name):
        field = f"sandbox.spec.annotations[{limits.PACKAGES_ANNOTATION}]"
        raise faults.invalid(f"{name!r} is not a package overlay", field)
    return name or None


def _storage(spec: pb.SandboxSpec, image: Image | StoreImage, default: int) -> int:
    # Bytes on disk; 0 if all files are in memory.
    text, field = spec.annotations.get(limits.STORAGE_ANNOTATION, ""), "sandbox.spec.annotations"
    are_on_disk = volumes.are_on_disk(spec)
    try:
        wanted = int(resources.parse_quantity(text)) if text else 0
    except ValueError as error:
        raise faults.invalid(str(error), field) from error
    if text and (not wanted or image.layers is None or _cells(spec) or are_on_disk is False):
        raise faults.invalid(
            f"{limits.STORAGE_ANNOTATION} is a size, for sandboxes from an image without volumes in memory", field
        )
    if image.layers is None and volumes.total_bytes(spec) > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise faults.invalid("scratch volumes larger than this machine's memory", "sandbox.spec.volumes")
    if image.layers is None or _cells(spec) or are_on_disk is False:
        return 0
    wanted = wanted or default or (limits.DISK_BYTES if are_on_disk else 0)
    return wanted + volumes.total_bytes(spec) if wanted else 0


def _cells(spec: pb.SandboxSpec) -> int:
    text = spec.annotations.get(limits.CELLS_ANNOTATION)
    if not text:
        return 0
    if not (_NUMBER.match(text) and 0 < int(text) <= limits.MAX_CELLS):
        field = f"sandbox.spec.annotations[{limits.CELLS_ANNOTATION}]"
        raise faults.invalid(f"{text!r} is not a number of cells from 1 to {limits.MAX_CELLS}", field)
    return int(text)


def digest(spec: pb.SandboxSpec, display_name: str) -> bytes:
    return hashlib.sha256(spec.SerializeToString(deterministic=True) + display_name.encode()).digest()
