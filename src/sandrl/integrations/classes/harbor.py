"""The environment for Harbor: trials in sandboxes of sandrl, on every runtime that has images."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult, SandboxBuildFailedError
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities
from harbor.models.task.config import NetworkMode as HarborMode
from harbor.models.trial.paths import EnvironmentPaths

from sandrl.errors import NoImageError, NoUserError, SandrlError, UsageError
from sandrl.integrations.machines import AsyncMachine
from sandrl.runtime.network import Network
from sandrl.sandboxes import Shape, network_of
from sandrl.settings import NetworkMode
from sandrl.trials.entries import Entry

__all__ = ["SandrlEnvironment"]

_MIB = 1 << 20
_LONGEST_SECONDS = 86_400.0
_SECONDS = 3600.0


class SandrlEnvironment(BaseEnvironment):  # type: ignore[misc] # the framework is not there for the type checker
    """A task's machine. Its image is `docker_image`, or is built from `environment/Dockerfile`.

    Args:
        sandboxes: Fields of a `SandboxRequest` (`--ek sandboxes='{"max_sandboxes": 8}'`): which sandboxes of the
            process of Harbor.
        max_lifetime_seconds: After this the runtime ends the machine.
    """

    def __init__(
        self,
        *given: Any,
        sandboxes: Mapping[str, Any] | None = None,
        max_lifetime_seconds: float = _LONGEST_SECONDS,
        **more: Any,
    ) -> None:
        self._sandboxes = dict(sandboxes or {})
        self._lifetime_seconds = float(max_lifetime_seconds)
        self._machine: AsyncMachine | None = None
        super().__init__(*given, **more)

    @staticmethod
    def type() -> str:
        return "sandrl"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(
            disable_internet=True,
            gpus=True,
            network_allowlist=True,
            network_allowlist_hostnames=True,
            network_allowlist_ipv4_addresses=True,
            network_allowlist_ipv6_addresses=True,
            network_allowlist_ipv4_cidrs=True,
            network_allowlist_ipv6_cidrs=True,
        )

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        return EnvironmentResourceCapabilities(
            cpu_limit=True, cpu_request=True, memory_limit=True, memory_request=True, fractional_cpus=True
        )

    def _validate_definition(self) -> None:
        if any((self.environment_dir / name).exists() for name in ("docker-compose.yaml", "docker-compose.yml")):
            raise ValueError("sandrl's environment has one machine for a task, and no services of docker-compose")
        if not self.task_env_config.docker_image and not (self.environment_dir / "Dockerfile").is_file():
            raise FileNotFoundError(f"{self.environment_dir / 'Dockerfile'}: the task has no image")

    async def start(self, force_build: bool) -> None:
        image = self.task_env_config.docker_image
        if force_build or not image:
            image = f"dockerfile:{(self.environment_dir / 'Dockerfile').absolute()}"
        try:
            self._machine = await AsyncMachine.start(image, self._shape(), tags=("harbor",), sandboxes=self._sandboxes)
        except SandrlError as error:
            if isinstance(error, UsageError | NoImageError):
                raise SandboxBuildFailedError(str(error)) from error
            raise
        paths = EnvironmentPaths.for_os(self.os)
        usual = (paths.agent_dir, paths.verifier_dir, paths.artifacts_dir, paths.tests_dir, paths.solution_dir)
        wanted = dict.fromkeys(map(str, (*usual, *self._mount_targets(writable_only=True))))
        made = await self.exec(self._ensure_dirs_command(list(wanted)), user="root")
        if made.return_code:
            raise RuntimeError(f"directories cannot be made in the sandbox: {made.stderr or made.stdout}")
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            if not delete:
                self.logger.warning("the sandbox ends although delete is false: it belongs to the process of Harbor")
            machine.close()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        named = self._resolve_user(user)
        seconds = _SECONDS if timeout_sec is None else float(timeout_sec)
        try:
            outcome = await self._running.run(
                command,
                user="0" if named in (None, "root") else str(named),
                timeout_seconds=seconds,
                variables=self._merge_env(env) or {},
                directory=cwd or self.task_env_config.workdir,
            )
        except NoUserError as error:
            return ExecResult(stdout="", stderr=str(error), return_code=126)
        if outcome.timed_out:
            raise RuntimeError(f"Command timed out after {seconds:g} seconds")
        said, wrong = (each.decode("utf-8", "replace") for each in (outcome.stdout, outcome.stderr))
        if (callback := self._output_callback()) is not None:
            for text, stream in ((said, "stdout"), (wrong, "stderr")):
                if text:
                    await callback(text, stream)
        return ExecResult(stdout=said, stderr=wrong, return_code=outcome.exit_code or 0)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        directory, name = posixpath.split(posixpath.normpath(target_path))
        await self._running.put(directory or "/", [_file(Path(source_path), name)])

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await self._running.put(target_dir, list(_files(Path(source_dir))))

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        content = await self._running.read(source_path)
        if content is None:
            raise FileNotFoundError(f"{source_path}: there is no such file in the sandbox")
        _write([Entry(Path(target_path).name, content=content)], "", Path(target_path).parent)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await self.download_dir_with_exclusions(source_dir=source_dir, target_dir=target_dir, exclude=[])

    async def download_dir_with_exclusions(
        self, *, source_dir: str, target_dir: Path | str, exclude: list[str]
    ) -> None:
        source = posixpath.normpath(source_dir)
        entries = await self._running.get(source, exclude=exclude)
        if entries is None:
            raise FileNotFoundError(f"{source_dir}: there is no such directory in the sandbox")
        _write(entries, posixpath.basename(source), Path(target_dir))

    @property
    def _running(self) -> AsyncMachine:
        if self._machine is None:
            raise RuntimeError("the environment was not started")
        return self._machine

    def _shape(self) -> Shape:
        memory, storage = self._effective_memory_mb, self._effective_storage_mb
        return Shape(
            memory_bytes=memory * _MIB if memory else None,
            processors=float(self._effective_cpus) if self._effective_cpus else None,
            storage_bytes=storage * _MIB if storage else None,
            network=self._network(),
            gpus=self._effective_gpus,
            directory=self.task_env_config.workdir,
            lifetime_seconds=self._lifetime_seconds,
        )

    def _network(self) -> Network:
        policy = self.network_policy
        modes = {
            HarborMode.NO_NETWORK: NetworkMode.NONE,
            HarborMode.ALLOWLIST: NetworkMode.ALLOWLIST,
            HarborMode.PUBLIC: NetworkMode.PUBLIC,
        }
        return network_of(modes[policy.network_mode], policy.allowed_hosts)


def _file(path: Path, name: str) -> Entry:
    return Entry(name, stat.S_IMODE(path.stat().st_mode), path.read_bytes())


def _files(directory: Path) -> Iterator[Entry]:
    for folder, folders, names in os.walk(directory):
        for name in sorted((*folders, *names)):
            path = Path(folder, name)
            relative = path.relative_to(directory).as_posix()
            if path.is_symlink():
                yield Entry(relative, 0o777, target=str(path.readlink()))
            elif path.is_dir():
                yield Entry(relative, stat.S_IMODE(path.stat().st_mode))
            elif path.is_file():
                yield _file(path, relative)


def _write(entries: list[Entry], root: str, target: Path) -> None:
    # What a sandbox has written: without links, and nothing but files below the directory.
    target.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        first, _, name = entry.name.partition("/")
        if first != root and root:
            continue
        path = target / (name if root else entry.name)
        if path == target and entry.content is not None:
            continue  # a file, where a directory was asked for
        if entry.is_directory:
            path.mkdir(parents=True, exist_ok=True)
        elif entry.content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(entry.content)
            path.chmod(entry.mode & 0o755 | 0o600)
