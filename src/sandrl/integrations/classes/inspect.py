"""The sandbox of inspect_ai: one machine for each sample, with one name, `default`."""

from __future__ import annotations

import errno
import posixpath
from pathlib import Path
from typing import Any

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from sandrl.errors import NoUserError, SandboxLostError, SandrlError
from sandrl.integrations.machines import AsyncMachine
from sandrl.sandboxes import Shape, network_of
from sandrl.settings import NetworkMode

__all__ = ["SandrlSandbox", "SandrlSandboxEnvironment"]

_DOCKERFILE = "Dockerfile"
_LONGEST_SECONDS = 86_400.0
_NOT_EXECUTABLE = 126
_MIB = 1 << 20


class SandrlSandbox(BaseModel):
    """The sandboxes of a sample, for `SandboxEnvironmentSpec("sandrl", SandrlSandbox(...))`.

    Attributes:
        image: A name, or `dockerfile:PATH`; empty for the image of the runtime.
        memory_mb: Memory in MiB.
        network: `none`, `public`, or `allowlist` with `allow_hosts`; that of the runtime unless given.
        sandboxes: Fields of a `SandboxRequest`: which sandboxes of this process.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    image: str = ""
    memory_mb: int | None = None
    cpus: float | None = None
    network: NetworkMode | None = None
    allow_hosts: tuple[str, ...] = ()
    sandboxes: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


@sandboxenv(name="sandrl")
class SandrlSandboxEnvironment(SandboxEnvironment):  # type: ignore[misc] # the framework is not there for the type checker
    """A machine of sandrl. Its programs run as the user of the image, in the image's working directory."""

    def __init__(self, machine: AsyncMachine, directory: str) -> None:
        super().__init__()
        self._machine = machine
        self._directory = directory

    @classmethod
    def config_files(cls) -> list[str]:
        return [_DOCKERFILE]

    @classmethod
    def is_docker_compatible(cls) -> bool:
        return False

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return SandrlSandbox(**config)

    @classmethod
    def default_concurrency(cls) -> int | None:
        # The job has limits of its own.
        return None

    @classmethod
    async def sample_init(
        cls, task_name: str, config: BaseModel | str | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        wanted = _wanted(config)
        try:
            network = None if wanted.network is None else network_of(wanted.network, wanted.allow_hosts)
            shape = Shape(
                memory_bytes=None if wanted.memory_mb is None else wanted.memory_mb * _MIB,
                processors=wanted.cpus,
                network=network,
                lifetime_seconds=_LONGEST_SECONDS,
            )
            machine = await AsyncMachine.start(
                wanted.image, shape, tags=("inspect",), sandboxes=wanted.sandboxes or None
            )
            try:
                directory = (await machine.run("pwd", timeout_seconds=60)).stdout.decode("utf-8", "replace").strip()
            except BaseException:
                machine.close()
                raise
        except SandrlError as error:
            raise SandboxUnavailableError(f"no sandbox was made: {error}") from error
        return {"default": cls(machine, directory or "/")}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: BaseModel | str | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            environment.as_type(cls)._machine.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            outcome = await self._machine.run(
                cmd,
                user="0" if user == "root" else user,
                timeout_seconds=_LONGEST_SECONDS if timeout is None else float(timeout),
                variables=env,
                directory=posixpath.join(self._directory, cwd or ""),
                stdin=input.encode() if isinstance(input, str) else input or b"",
                output_bytes=limit,
            )
        except NoUserError as error:
            raise SandboxUserUnsupportedError(str(error)) from error
        except SandboxLostError as error:
            raise SandboxUnavailableError(str(error)) from error
        said, wrong = (each.decode("utf-8", "replace") for each in (outcome.stdout, outcome.stderr))
        if outcome.timed_out:
            raise TimeoutError(f"the command exceeded its time limit of {timeout} s")
        if len(outcome.stdout) > limit or len(outcome.stderr) > limit:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, said[:limit])
        if outcome.exit_code == _NOT_EXECUTABLE and "ermission denied" in wrong:
            raise PermissionError(errno.EACCES, wrong.strip(), cmd[0])
        return ExecResult(outcome.exit_code == 0, outcome.exit_code or 0, said, wrong)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        content = contents.encode() if isinstance(contents, str) else contents
        try:
            await self._machine.write_as(None, posixpath.join(self._directory, file), content)
        except SandboxLostError as error:
            raise SandboxUnavailableError(str(error)) from error

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            content = await self._machine.read_as(None, posixpath.join(self._directory, file), limit)
        except SandboxLostError as error:
            raise SandboxUnavailableError(str(error)) from error
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            limits = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR
            raise OutputLimitExceededError(limits, None) from error
        return content.decode() if text else content


def _wanted(config: BaseModel | str | None) -> SandrlSandbox:
    if config is None or isinstance(config, SandrlSandbox):
        return config or SandrlSandbox()
    if not isinstance(config, str):
        raise ValueError(f"the configuration of a sandbox must be a SandrlSandbox, not {type(config).__name__}")
    # inspect_ai finds a file of this name by itself; any other text is an image.
    is_file = posixpath.basename(config) == _DOCKERFILE or Path(config).is_file()
    return SandrlSandbox(image=f"dockerfile:{Path(config).absolute()}" if is_file else config)
