"""The runtime for verifiers, and the environment whose agents work in it.

verifiers has a closed list of runtimes in its configuration, but an agent can borrow one that an environment has made.
So the environment here makes a sandbox for each episode, and lends it.
"""

from __future__ import annotations

import asyncio
import posixpath
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.configs.runtime import NetworkPolicyConfig
from verifiers.v1.errors import SandboxError
from verifiers.v1.runtimes import ApptainerConfig, BaseRuntimeInfo, ProgramResult, Runtime
from verifiers.v1.runtimes.base import parse_gpu, register
from verifiers.v1.runtimes.container import ContainerConfig
from verifiers.v1.utils.compile import resolve_runtime_config

from sandrl.errors import NoUserError, SandrlError, UsageError
from sandrl.integrations.machines import MOST_BYTES, AsyncMachine
from sandrl.runtime.network import Network
from sandrl.sandboxes import Shape, network_of, with_loopback
from sandrl.settings import NetworkMode

__all__ = ["SandboxConfig", "SandboxEnv", "SandboxEnvConfig", "SandrlRuntime"]

_GIB = 1 << 30
_LONGEST_SECONDS = 86_400.0
_PORTS = 4
_NO_USER = 126
_CHUNK_BYTES = 64 << 10


class SandboxConfig(NetworkPolicyConfig, ContainerConfig):  # type: ignore[misc] # the framework is not there for the type checker
    """A sandbox: `--env.sandbox.*`; the values of a task replace those that are not given."""

    type: Literal["sandrl"] = "sandrl"
    image: str = ""
    """A name, or `dockerfile:PATH`; that of the runtime unless given."""
    lifetime_seconds: float = _LONGEST_SECONDS
    """After this the runtime ends it."""
    sandboxes: dict[str, Any] = Field(default_factory=dict)
    """Fields of a `SandboxRequest`: which sandboxes of this process."""


class _SandboxInfo(SandboxConfig, BaseRuntimeInfo):  # type: ignore[misc]
    """A sandbox that has run."""


class SandrlRuntime(Runtime):  # type: ignore[misc]
    """A sandbox of sandrl as a runtime.

    Programs in it reach servers of verifiers on this machine, and otherwise what its network permits. A sandbox that
    fails, or is ended in the middle, raises `SandboxError`.
    """

    is_local = True
    supports_user: ClassVar[bool] = True

    def __init__(self, config: SandboxConfig, name: str | None = None) -> None:
        super().__init__(name)
        self.config = config
        self.info = _SandboxInfo(**config.model_dump())
        self._machine: AsyncMachine | None = None
        self._doors: list[_Door] = []
        register(self)

    async def start(self) -> None:
        """Starts the sandbox.

        Raises:
            SandboxError: If the sandbox cannot be made.
        """
        config = self.config
        try:
            for _ in range(_PORTS):
                self._doors.append(await _Door.opened())
            shape = Shape(
                memory_bytes=None if config.memory is None else int(config.memory * _GIB),
                processors=config.cpu,
                storage_bytes=None if config.disk is None else int(config.disk * _GIB),
                network=with_loopback(_network(config), [door.port for door in self._doors]),
                directory=config.workdir,
                gpus=parse_gpu(config.gpu)[1],
                lifetime_seconds=config.lifetime_seconds,
            )
            self._machine = await AsyncMachine.start(
                config.image, shape, tags=("verifiers",), sandboxes=config.sandboxes or None
            )
        except SandrlError as error:
            raise SandboxError(f"no sandbox was made: {error}") from error
        self.info.id = self._machine.machine.sandbox_id

    def cleanup(self) -> None:
        """Begins to stop the sandbox; a second call does nothing."""
        if self._machine is not None:
            self._machine.close()
        for door in self._doors:
            door.close()

    async def run(self, argv: list[str], env: dict[str, str]) -> ProgramResult:
        """Runs a program to its end; its time is that of the sandbox.

        Raises:
            SandboxError: If the sandbox, or its runtime, failed.
        """
        return await self._run(argv, self.process_env(env))

    async def run_background(self, argv: list[str], env: dict[str, str], log: str) -> None:
        """Starts a program, which continues until the sandbox ends.

        Raises:
            SandboxError: If it cannot be started, or the sandbox failed.
        """
        text = f"{shlex.join(argv)} > {shlex.quote(log)} 2>&1 < /dev/null &"
        begun = await self._run(["sh", "-c", text], self.process_env(env))
        if begun.exit_code:
            raise SandboxError(f"a program in the background could not be started: {begun.stderr.strip()[-500:]}")

    async def _read(self, path: str, max_bytes: int | None = None) -> bytes:
        most = MOST_BYTES if max_bytes is None else max_bytes
        try:
            return await self._running.read_as(self.user, self._absolute(path), most)
        except (SandrlError, OSError) as error:
            raise SandboxError(f"read {path!r}: {error}") from error

    async def write(self, path: str, data: bytes) -> None:
        """Makes a file, and the directories above it.

        Raises:
            SandboxError: If that is impossible, or the sandbox failed.
        """
        try:
            await self._running.write_as(self.user, self._absolute(path), data)
        except (SandrlError, OSError) as error:
            raise SandboxError(f"write {path!r}: {error}") from error

    def host_url(self, url: str) -> str:
        """The address under which programs in the sandbox reach a server on this machine.

        Raises:
            SandboxError: If they reach others already, and no more.
        """
        parts = urlsplit(url)
        if parts.hostname not in ("127.0.0.1", "localhost") or parts.port is None:
            return url
        for door in self._doors:
            if door.target in (None, parts.port):
                door.target = parts.port
                return parts._replace(netloc=f"127.0.0.1:{door.port}").geturl()
        raise SandboxError(f"programs in a sandbox reach {_PORTS} servers of this machine at most")

    async def expose(self, port: int) -> str:
        """Refuses to make a port of the sandbox one of this machine.

        Raises:
            SandboxError: Always.
        """
        raise SandboxError(f"port {port} of a sandbox cannot be reached from this machine: place the server elsewhere")

    @property
    def _running(self) -> AsyncMachine:
        if self._machine is None:
            raise SandboxError("the sandbox was not started")
        return self._machine

    def _absolute(self, path: str) -> str:
        return posixpath.join(self.config.workdir or "", path)

    async def _run(self, argv: list[str], variables: dict[str, str]) -> ProgramResult:
        try:
            outcome = await self._running.run(
                argv, user=self.user, timeout_seconds=self.config.lifetime_seconds, variables=variables
            )
        except NoUserError as error:
            return ProgramResult(_NO_USER, "", str(error))
        except SandrlError as error:
            raise SandboxError(str(error)) from error
        said, wrong = (each.decode("utf-8", "replace") for each in (outcome.stdout, outcome.stderr))
        if outcome.timed_out:
            raise SandboxError(f"the sandbox has ended after {self.config.lifetime_seconds:g} s")
        return ProgramResult(outcome.exit_code or 0, said, wrong)


@dataclass
class _Door:
    # A port of this machine's loopback that a sandbox may reach, and the port behind it, once that is known.

    server: asyncio.Server
    port: int
    target: int | None = None

    @classmethod
    async def opened(cls) -> _Door:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await door._serve(reader, writer)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        door = cls(server, server.sockets[0].getsockname()[1])
        return door

    def close(self) -> None:
        # At the end of the process there may be no loop any more.
        with suppress(RuntimeError):
            self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.target is None:
                return
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
            try:
                await asyncio.gather(_carry(reader, back), _carry(there, writer))
            finally:
                back.close()
        except OSError:
            pass  # one of the two has gone
        finally:
            writer.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


# What the agent's configuration names is never made: a kind on this machine, which verifiers takes for isolated, and
# which has no policy for a network that would contradict that of the sandbox.
_LENT = ApptainerConfig()


class SandboxEnvConfig(vf.EnvConfig):  # type: ignore[misc]
    """The environment: `--env.*`."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=_LENT)
    """Who acts; its runtime is the sandbox."""
    sandbox: SandboxConfig = SandboxConfig()
    """Where it acts."""


class SandboxEnv(vf.Env[SandboxEnvConfig]):  # type: ignore[misc]
    """One agent, which acts in a sandbox of its own: `--env.id sandrl-sandboxes`, with any taskset.

    Raises:
        UsageError: If another runtime is asked for.
    """

    def __init__(self, config: SandboxEnvConfig) -> None:
        if config.agent.runtime != _LENT:
            raise UsageError(
                f"the agent acts in a sandbox, and not in the runtime {config.agent.runtime.type!r}"
                " (`env.agent.runtime.type`)"
            )
        super().__init__(config)

    async def run(self, task: vf.Task, agents: Any) -> None:
        """Has the agent act on a task.

        Raises:
            SandboxError: If the sandbox cannot be made.
        """
        box = SandrlRuntime(resolve_runtime_config(self.config.sandbox, task))
        try:
            await box.start()
            trace = await agents.agent.run(task, runtime=box)
        finally:
            await box.stop()
        # Traces have a closed list of runtimes too.
        trace.info["sandrl"] = {"sandbox_id": box.info.id}
        trace.agent.runtime = None


def _network(config: SandboxConfig) -> Network:
    if config.block not in ([], ["*"]):
        raise UsageError(
            f"network: a sandbox has hosts that it may reach (`allow`), and none to `block`: {config.block}"
        )
    if config.allow == ["*"]:
        return network_of(NetworkMode.PUBLIC, ())
    return network_of(NetworkMode.ALLOWLIST if config.allow else NetworkMode.NONE, config.allow)
