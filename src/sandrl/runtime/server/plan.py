"""Turns the sandbox spec of a request into a plan for the host, and refuses what a local machine cannot provide."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime import limits
from sandrl.runtime.guest import rootfs
from sandrl.runtime.host.images import Image, StoreImage
from sandrl.runtime.host.launcher import BootRequest
from sandrl.runtime.server import faults

RUNTIME_CLASS = "sandrl-local"

# What the SDK sends when the caller names no command. It only keeps a container alive, which a sandbox of ours
# does by itself, so it is never started: that saves a shell and a sleep per sandbox.
_KEEP_ALIVE = ("/bin/sh", ("-c", 'trap "exit 0" TERM INT; sleep infinity & wait'))

_REASONS = {
    "services of different visibility": "CWSANDBOX_NOT_IMPLEMENTED",
    "a TLS passthrough endpoint": "CWSANDBOX_TLS_PASSTHROUGH_ENDPOINTS_NOT_SUPPORTED",
    "an HTTPS endpoint": "CWSANDBOX_HTTPS_SHARE_TOKEN_NOT_SUPPORTED",
}
_MAX_MEMORY_BYTES = 1 << 40
_FIXED = frozenset((*rootfs.TOP_LEVEL, "usr", "etc", "dev", "proc", "sys"))
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTP]i?)?$")
_NUMBER = re.compile(r"[0-9]{1,3}\Z")
_OVERLAY_NAME = re.compile(r"[0-9a-f]{16,64}$")


@dataclass(frozen=True)
class Plan:
    """What one sandbox needs.

    Attributes:
        main: Its main program, or None to keep it alive without one.
        files: Path and content, to write before anything runs.
    """

    boot: BootRequest
    main: tuple[str, ...] | None
    environment: dict[str, str]
    directory: str
    files: tuple[tuple[str, bytes], ...]
    container: str
    lifetime_seconds: int


def parse_quantity(text: str) -> float:
    """A Kubernetes quantity (`512Mi`, `500m`, `2`) as a number.

    Raises:
        ValueError: If it is none.
    """
    found = _QUANTITY.match(text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a quantity such as 512Mi, 500m or 2")
    number, unit = float(found.group(1)), found.group(2) or ""
    if unit == "m":
        return number / 1000
    if unit.endswith("i"):
        return number * 1024.0 ** ("KMGTP".index(unit[0].upper()) + 1)
    return number * 1000.0 ** ("KMGTP".index(unit.upper()) + 1) if unit else number


def container_of(spec: pb.SandboxSpec) -> pb.Container:
    """The container of a sandbox.

    Raises:
        faults.Fault: If there is not exactly one.
    """
    if len(spec.containers) != 1:
        raise faults.unsupported("a sandbox with other than one container (at most 1 container)")
    return spec.containers[0]


def make_plan(spec: pb.SandboxSpec, image: Image | StoreImage) -> Plan:
    """Decide how to serve a spec, with the image that it names.

    Raises:
        faults.Fault: If it asks for what a local machine cannot give, or is malformed.
    """
    container = container_of(spec)
    _refuse(spec, container)
    scratch_bytes, mounts = _scratch_volumes(spec, container)
    overlay = _overlay(spec)
    environment = image.environment_of_programs(has_overlay=overlay is not None)
    environment |= dict(container.environment_variables)
    files = tuple((file.path, bytes(file.content)) for file in container.files)
    directory = container.working_dir or image.directory
    parents = [path.rpartition("/")[0] or "/" for path, _ in files]
    if image.layers is None:
        directories = _writable([*mounts, *parents]) + (() if _is_fixed(directory) else _writable([directory]))
    else:
        directories = _absolute([*mounts, *parents, directory])
        if overlay is not None:
            raise faults.invalid("packages are installed for the host's Python", "sandbox.spec.annotations")
    boot = BootRequest(
        image=image.name,
        layers=image.layers,
        user=image.user,
        overlay=overlay,
        directories=directories,
        memory_bytes=_memory(container),
        disk_bytes=limits.DISK_BYTES + scratch_bytes,
        cells=_cells(spec),
    )
    return Plan(
        boot=boot,
        main=_main(container, image),
        environment=environment,
        directory=directory,
        files=files,
        container=container.name or "main",
        lifetime_seconds=min(spec.max_lifetime_seconds or limits.MAX_LIFETIME_SECONDS, limits.MAX_LIFETIME_SECONDS),
    )


def _main(container: pb.Container, image: Image | StoreImage) -> tuple[str, ...] | None:
    if (container.command, tuple(container.args)) == _KEEP_ALIVE:
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


def _memory(container: pb.Container) -> int:
    needs = container.resource_requirements
    for resources in (needs.limits, needs.requests, container.resources):
        if resources.gpu.count or resources.gpu.type:
            raise faults.unsupported("a GPU")
    text = needs.limits.memory or container.resources.memory or needs.requests.memory
    if not text:
        return limits.MEMORY_BYTES
    try:
        memory_bytes = int(parse_quantity(text))
        for resources in (needs.limits, needs.requests, container.resources):
            if resources.cpu:
                parse_quantity(resources.cpu)
    except ValueError as error:
        raise faults.invalid(str(error), "sandbox.spec.containers[0].resources") from error
    if not 0 < memory_bytes <= _MAX_MEMORY_BYTES:
        raise faults.invalid(f"{text!r} of memory cannot be given", "sandbox.spec.containers[0].resources.memory")
    return memory_bytes


def _overlay(spec: pb.SandboxSpec) -> str | None:
    name = str(spec.annotations.get(limits.PACKAGES_ANNOTATION, ""))
    if name and not _OVERLAY_NAME.match(name):
        field = f"sandbox.spec.annotations[{limits.PACKAGES_ANNOTATION}]"
        raise faults.invalid(f"{name!r} is not a package overlay", field)
    return name or None


def _cells(spec: pb.SandboxSpec) -> int:
    text = spec.annotations.get(limits.CELLS_ANNOTATION)
    if not text:
        return 0
    if not (_NUMBER.match(text) and 0 < int(text) <= limits.MAX_CELLS):
        field = f"sandbox.spec.annotations[{limits.CELLS_ANNOTATION}]"
        raise faults.invalid(f"{text!r} is not a number of cells from 1 to {limits.MAX_CELLS}", field)
    return int(text)


def _refuse(spec: pb.SandboxSpec, container: pb.Container) -> None:
    endpoints = [service.endpoint for service in spec.services if service.HasField("endpoint")]
    visibilities = {service.visibility for service in spec.services}
    network = spec.network
    unsupported = {
        "services of different visibility": len(visibilities) > 1,
        "a TLS passthrough endpoint": any(each.kind == pb.ENDPOINT_KIND_TLS_PASSTHROUGH for each in endpoints),
        "an HTTPS endpoint": bool(endpoints),
        "a service reachable from outside its sandbox": visibilities & {pb.VISIBILITY_PUBLIC, pb.VISIBILITY_CUSTOM},
        "a network beyond the sandbox's own loopback": (
            network.dns_egress == pb.DNS_EGRESS_MODE_ALLOW or network.egress or network.ingress
        ),
        "a choice of instance type or runtime class": (
            spec.instance_type or spec.runtime_class not in ("", RUNTIME_CLASS) or spec.runtime_class_selection
        ),
        "object storage access": spec.HasField("object_storage_access"),
        "a secret store": container.secret_stores,
        "a privileged container": container.security_context.privileged,
    }
    for what, is_wanted in unsupported.items():
        if is_wanted:
            raise faults.unsupported(what, _REASONS.get(what, "CWSANDBOX_NO_SUITABLE_RUNNER"))


def _scratch_volumes(spec: pb.SandboxSpec, container: pb.Container) -> tuple[int, list[str]]:
    total = 0
    for volume in spec.volumes:
        if volume.volume_id:
            raise faults.Fault(
                grpc.StatusCode.NOT_FOUND,
                f"volume {volume.volume_id!r} not found; the local runtime has no registered volumes",
                reason="CWSANDBOX_VOLUME_NOT_FOUND",
                metadata={"volume_id": volume.volume_id},
            )
        if volume.scratch.restore_from_snapshot_id:
            raise faults.unsupported("a file-system snapshot", "CWSANDBOX_FSS_NOT_SUPPORTED")
        try:
            total += int(parse_quantity(volume.scratch.size)) if volume.scratch.size else 0
        except ValueError as error:
            raise faults.invalid(str(error), "sandbox.spec.volumes") from error
    if total > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise faults.invalid("scratch volumes larger than this machine's memory", "sandbox.spec.volumes")
    return total, [mount.mount_path for mount in container.volume_mounts]


def digest(spec: pb.SandboxSpec) -> bytes:
    return hashlib.sha256(spec.SerializeToString(deterministic=True)).digest()
