"""The provider of sandboxes for NeMo-Gym."""

from __future__ import annotations

import asyncio
import posixpath
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_gym.sandbox.providers.base import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxSpec,
    SandboxStatus,
)

from sandrl.errors import NoUserError, SandboxLostError, SandrlError
from sandrl.integrations.machines import AsyncMachine
from sandrl.sandboxes import Shape, network_of
from sandrl.settings import NetworkMode
from sandrl.trials.entries import Entry

__all__ = ["SandrlProvider"]

_MIB, _GIB = 1 << 20, 1 << 30
_LONGEST_SECONDS = 86_400.0
_SECONDS = 180.0
_NO_EXIT_CODE, _NO_USER = 125, 126


class SandrlProvider:
    """Sandboxes of one job of this process, as a provider of NeMo-Gym.

    A sandbox that fails, or is ended in the middle, raises `SandboxLostError` in every operation; only a command that
    exceeded its time limit, or has no such user, has an `error_type`.

    Args:
        network: `none`, `public`, or `allowlist` with `allow_hosts`; that of the runtime unless given.
        sandboxes: Fields of a `SandboxRequest`: which sandboxes of this process.
    """

    name = "sandrl"

    def __init__(
        self,
        *,
        network: NetworkMode | str | None = None,
        allow_hosts: Sequence[str] = (),
        sandboxes: Mapping[str, Any] | None = None,
    ) -> None:
        self._network = None if network is None else network_of(NetworkMode(network), allow_hosts)
        self._sandboxes = dict(sandboxes or {})

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Starts a sandbox; the metadata of its specification become tags.

        Raises:
            SandboxCreateError: If the sandbox cannot be made, or is not ready in time.
        """
        unknown = sorted(spec.provider_options)
        if spec.entrypoint is not None or spec.resources.gpu_type is not None or unknown:
            refused = ", ".join([*unknown, "entrypoint" if spec.entrypoint is not None else "gpu_type"])
            raise SandboxCreateError(f"a sandbox here has no such property: {refused}")
        resources = spec.resources
        shape = Shape(
            memory_bytes=None if resources.memory_mib is None else resources.memory_mib * _MIB,
            processors=resources.cpu,
            storage_bytes=None if resources.disk_gib is None else resources.disk_gib * _GIB,
            network=self._network,
            variables=tuple(spec.env.items()),
            directory=spec.workdir,
            gpus=resources.gpu or 0,
            lifetime_seconds=_LONGEST_SECONDS if spec.ttl_s is None else float(spec.ttl_s),
        )
        tags = ("nemo-gym", *(f"{name}:{value}" for name, value in spec.metadata.items()))
        try:
            async with asyncio.timeout(spec.ready_timeout_s):
                machine = await AsyncMachine.start(spec.image or "", shape, tags=tags, sandboxes=self._sandboxes)
        except TimeoutError as error:
            raise SandboxCreateError(f"the sandbox was not ready within {spec.ready_timeout_s} s") from error
        except SandrlError as error:
            raise SandboxCreateError(str(error)) from error
        return SandboxHandle(machine.machine.sandbox_id or "", self.name, machine)

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: int | float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Runs a command in the shell of the image: bash, else sh.

        Raises:
            SandboxLostError: If the sandbox, or its runtime, failed.
        """
        seconds = _SECONDS if timeout_s is None else float(timeout_s)
        named = "0" if user == "root" else user
        try:
            outcome = await _machine(handle).run(
                command,
                user=None if named is None else str(named),
                timeout_seconds=seconds,
                variables=env or {},
                directory=cwd,
            )
        except NoUserError as error:
            return SandboxExecResult(None, str(error), _NO_USER, "user")
        said, wrong = (each.decode("utf-8", "replace") for each in (outcome.stdout, outcome.stderr))
        if outcome.timed_out:
            told = f"{wrong}the command exceeded its time limit of {seconds:g} s\n"
            return SandboxExecResult(said, told, _NO_EXIT_CODE, "timeout")
        return SandboxExecResult(said, wrong, outcome.exit_code or 0)

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        """Writes a file, and the directories above it.

        Raises:
            SandboxLostError: If it cannot be written, or the sandbox failed.
        """
        directory, name = posixpath.split(posixpath.normpath(target_path))
        mode, content = await asyncio.to_thread(lambda: (source_path.stat().st_mode, source_path.read_bytes()))
        await _machine(handle).put(directory or ".", [Entry(name, stat.S_IMODE(mode), content)])

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Reads a file.

        Raises:
            FileNotFoundError: If there is none of this name.
            SandboxLostError: If the sandbox failed.
        """
        content = await _machine(handle).read(source_path)
        if content is None:
            raise FileNotFoundError(f"{source_path}: there is no such file in the sandbox")
        await asyncio.to_thread(_write, target_path, content)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        """Whether the sandbox works, which a command in it decides."""
        machine = _machine(handle)
        if machine.machine.sandbox_id is None and not machine.machine.is_lost:
            return SandboxStatus.STOPPED
        try:
            await machine.run(("true",), timeout_seconds=_SECONDS)
        except SandboxLostError:
            return SandboxStatus.ERROR
        return SandboxStatus.RUNNING

    async def close(self, handle: SandboxHandle) -> None:
        """Begins to stop a sandbox; a second call does nothing."""
        _machine(handle).close()

    async def aclose(self) -> None:
        """Nothing: the job of the sandboxes ends with the process."""


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _machine(handle: SandboxHandle) -> AsyncMachine:
    machine = handle.raw
    assert isinstance(machine, AsyncMachine), "it was made here"
    return machine
