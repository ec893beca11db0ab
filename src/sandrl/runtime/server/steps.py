"""Runs the programs of builds: each in a sandbox from the image so far, whose changed files become the next layer."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.host.files import FileError, archive, unpack
from sandrl.runtime.host.images import StoreImage
from sandrl.runtime.host.process import Exit
from sandrl.runtime.host.sandbox import HostSandbox, StartError
from sandrl.runtime.limits import MOST_PROCESSES, PRIVATE_HOSTS_ANNOTATION, RECORDING_ANNOTATION
from sandrl.runtime.server import faults
from sandrl.runtime.server.plan import KEEP_ALIVE
from sandrl.runtime.server.sandboxes import SandboxManager
from sandrl.runtime.steps import OUTPUT, RESULT, Step
from sandrl.settings import NetworkMode

_CHUNK_BYTES = 1 << 20
_SHARE_OF_MEMORY = 0.5
_INODES = 1_000_000

Write = Callable[[bytes], Awaitable[None]]


async def run_step(manager: SandboxManager, wanted: Mapping[str, Any], write: Write) -> None:
    """Run a `sandrl.runtime.steps.Step`; write its output as it comes, and then its result.

    Raises:
        faults.Fault: If its sandbox cannot be started, or its files cannot be stored.
    """
    step = Step.of(wanted)
    # Its files are in memory, too.
    half = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY)
    limits = {
        "memory_bytes": half,
        "disk_bytes": half,
        "inodes": _INODES,
        "processes": MOST_PROCESSES,
        "pretends_owners": True,
    }
    record = await manager.start_step(_spec(step), functools.partial(_changed, step), limits)
    try:
        host = record.host
        if host is None:
            raise faults.unavailable(record.reason)
        result = await _run(step, host, record.plan.environment, write)
        for each in manager.gate.connections(record.spec.tags)[0]:
            if reason := each["refused"] or each["error"]:
                await write(OUTPUT + f"network: {each['host']}:{each['port']}: {reason}\n".encode())
        if not result["exit_code"]:
            described = step.text or "RUN"
            image = await manager.save(record, host, None, described, step.left_out)
            await _keep(step, host)
            result["digest"] = image.digest
    finally:
        await manager.delete(record, 0.0)
    await write(RESULT + json.dumps(result).encode())


async def _run(step: Step, host: HostSandbox, environment: Mapping[str, str], write: Write) -> dict[str, Any]:
    try:
        if step.files:
            await _fill(host, "/", step.files)
        for volume in step.volumes:
            if volume.content:
                await _fill(host, volume.target, volume.content)
    except FileError as error:
        raise faults.invalid(f"a mount cannot be made: {error}", "volumes") from error
    try:
        _, process = await host.start(step.arguments, environment, directory=step.directory, merge_output=True)
    except StartError as error:
        await write(OUTPUT + f"{error}\n".encode())
        return {"exit_code": error.code}
    process.close_stdin()
    while not isinstance(output := await process.next_output(), Exit):
        await write(OUTPUT + output[1])
    if output.message:
        raise faults.lost(output.message) if await host.is_lost() else faults.unavailable(output.message)
    return {"exit_code": output.code}


async def _fill(host: HostSandbox, directory: str, path: str) -> None:
    await unpack(host, directory, _pieces(Path(path)))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_CHUNK_BYTES), b"")


async def _keep(step: Step, host: HostSandbox) -> None:
    for volume in step.volumes:
        if volume.kept:
            with _replaced(Path(volume.kept)) as file:
                await archive(host, volume.target, file.write)


@contextmanager
def _replaced(path: Path) -> Iterator[IO[bytes]]:
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        yield file
    new.replace(path)


def _changed(step: Step, image: StoreImage) -> StoreImage:
    variables: Sequence[tuple[str, str]] = tuple(step.environment.items())
    return dataclasses.replace(
        image,
        variables=tuple(variables),
        directory=step.directory,
        user=step.user,
        entrypoint=(),
        arguments=(),
    )


def _spec(step: Step) -> pb.SandboxSpec:
    names = [f"volume-{number}" for number in range(len(step.volumes))]
    mounts = [
        pb.VolumeMount(volume=name, mount_path=each.target) for name, each in zip(names, step.volumes, strict=True)
    ]
    command, arguments = KEEP_ALIVE
    container = pb.Container(name="main", image=step.image, command=command, args=arguments, volume_mounts=mounts)
    spec = pb.SandboxSpec(containers=[container], tags=[f"build-step-{uuid.uuid4().hex}"])
    if step.network == NetworkMode.PUBLIC:
        spec.network.egress.add(any=True)
        spec.annotations[PRIVATE_HOSTS_ANNOTATION] = " ".join(step.private_hosts)
        if step.recording:
            spec.annotations[RECORDING_ANNOTATION] = step.recording
    for name in names:
        spec.volumes.add(name=name).scratch.SetInParent()
    return spec
