"""Sandboxes of tinker-cookbook, and its rollouts without rewards of episodes that have lost theirs."""

from __future__ import annotations

import asyncio
import errno
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tinker_cookbook.exceptions import SandboxError
from tinker_cookbook.rl.rollout_strategy import FailFast, RolloutResult, RolloutStrategy
from tinker_cookbook.rl.types import Env, EnvGroupBuilder
from tinker_cookbook.sandbox import SandboxResult, SandboxTerminatedError

from sandrl.errors import SandboxLostError, SandrlError
from sandrl.integrations.machines import OUTPUT_BYTES, AsyncMachine
from sandrl.problems.tasks.sources import read_task
from sandrl.sandboxes import CommandOutcome, Shape, network_of
from sandrl.settings import NetworkMode
from sandrl.trials.machine import ROOT
from sandrl.trials.preparation import Unprepared
from sandrl.trials.trial import shape_of

__all__ = ["LostSandboxes", "SandrlSandbox", "task_sandbox"]

_TIMED_OUT = 124
_MIB = 1 << 20
_OUTPUT_BYTES = 128 << 10
_READ = 'exec head -c "$2" <"$1"'
_WRITE = 'case $1 in */*) mkdir -p -- "${1%/*}/";; esac && cat >"$1" && { [ -z "$2" ] || chmod +x -- "$1"; }'

_losses: ContextVar[list[SandboxTerminatedError] | None] = ContextVar("losses", default=None)


class SandrlSandbox:
    """A machine of sandrl as a `SandboxInterface`; make one with `create`.

    Commands of an image run as root, as those of Modal's sandboxes. A sandbox ends with `cleanup`, after its time, with
    the process, and once nothing refers to it.
    """

    def __init__(self, machine: AsyncMachine) -> None:
        self._machine = machine
        self._id = machine.machine.sandbox_id or ""
        self._user = ROOT if machine.machine.shape.as_root else None
        # Retries of tinker-cookbook make whole groups for one episode, and leave the others to the garbage collector.
        self._unused = weakref.finalize(self, _close_later, asyncio.get_running_loop(), machine)
        self._unused.atexit = False

    @classmethod
    async def create(
        cls,
        image: str = "",
        timeout: int = 3600,
        *,
        memory_mb: int | None = None,
        cpus: float | None = None,
        network: NetworkMode | str | None = None,
        allow_hosts: Sequence[str] = (),
        sandboxes: Mapping[str, Any] | None = None,
    ) -> Self:
        """Starts a sandbox.

        Args:
            image: A name, or `dockerfile:PATH`; that of the runtime unless given.
            timeout: Seconds after which the runtime ends it.
            memory_mb: Memory in MiB.
            network: `none`, `public`, or `allowlist` with `allow_hosts`; that of the runtime unless given.
            sandboxes: Fields of a `SandboxRequest`: which sandboxes of this process.

        Raises:
            SandboxError: If the sandbox cannot be made.
        """
        shape = Shape(
            memory_bytes=None if memory_mb is None else memory_mb * _MIB,
            processors=cpus,
            network=None if network is None else network_of(NetworkMode(network), allow_hosts),
            lifetime_seconds=float(timeout),
        )
        return cls(await _started(AsyncMachine.start(image, shape, tags=("tinker",), sandboxes=sandboxes)))

    @property
    def sandbox_id(self) -> str:
        return self._id

    async def send_heartbeat(self, timeout: int = 30) -> None:
        """Runs `true`; a sandbox needs no heartbeat.

        Raises:
            SandboxTerminatedError: If the sandbox, or its runtime, failed.
        """
        await self._run(("true",), timeout)

    async def run_command(
        self,
        command: str,
        workdir: str | None = None,
        timeout: int = 60,
        max_output_bytes: int | None = None,
    ) -> SandboxResult:
        """Runs a command in the shell of the image: bash, else sh.

        Args:
            timeout: Seconds; the exit code of a command that exceeds them is 124.
            max_output_bytes: How much of each output is kept; a line with its size replaces the middle of a longer one.

        Raises:
            SandboxTerminatedError: If the sandbox, or its runtime, failed.
        """
        most = _OUTPUT_BYTES if max_output_bytes is None else max_output_bytes
        return _result(await self._run(command, timeout, directory=workdir, output_bytes=most), timeout, most)

    async def read_file(self, path: str, max_bytes: int | None = None, timeout: int = 60) -> SandboxResult:
        """Reads the beginning of a file, or all of it, up to 16 MiB; the exit code is not 0 if that is impossible.

        Raises:
            SandboxTerminatedError: If the sandbox, or its runtime, failed.
        """
        most = OUTPUT_BYTES + 1 if max_bytes is None else max_bytes
        outcome = await self._run(self._program(_READ, path, str(most)), timeout, output_bytes=most)
        if max_bytes is None and len(outcome.stdout) > OUTPUT_BYTES:
            return SandboxResult(stdout="", stderr=f"{path}: {os.strerror(errno.EFBIG)}", exit_code=1)
        return _result(outcome, timeout, most)

    async def write_file(
        self, path: str, content: str | bytes, executable: bool = False, timeout: int = 60
    ) -> SandboxResult:
        """Makes a file, and the directories above it.

        Raises:
            SandboxTerminatedError: If the sandbox, or its runtime, failed.
        """
        words = self._program(_WRITE, path, "x" if executable else "")
        given = content.encode() if isinstance(content, str) else content
        return _result(await self._run(words, timeout, stdin=given), timeout)

    async def cleanup(self) -> None:
        """Begins to stop the sandbox; a second call does nothing."""
        self._unused.detach()
        self._machine.close()

    def _program(self, text: str, *arguments: str) -> tuple[str, ...]:
        return self._machine.machine.shell, "-c", text, "sh", *arguments

    async def _run(
        self,
        command: str | Sequence[str],
        seconds: int,
        *,
        directory: str | None = None,
        stdin: bytes = b"",
        output_bytes: int = _OUTPUT_BYTES,
    ) -> CommandOutcome:
        try:
            return await self._machine.run(
                command,
                user=self._user,
                timeout_seconds=float(seconds),
                directory=directory,
                stdin=stdin,
                output_bytes=output_bytes,
            )
        except SandboxLostError as error:
            lost = SandboxTerminatedError(str(error))
            if (losses := _losses.get()) is not None:
                losses.append(lost)
            raise lost from error
        except SandrlError as error:
            raise SandboxError(str(error)) from error


async def task_sandbox(env_dir: Path, timeout: int) -> SandrlSandbox:
    """The sandbox of a task of Harbor's format: a `SandboxFactory` of the recipe `harbor_rl`.

    Image (`docker_image`, or built from the Dockerfile), memory, processors, storage, variables, working directory and
    network are those of `task.toml`.

    Args:
        env_dir: The directory `environment` of the task.
        timeout: Seconds after which the runtime ends the sandbox.

    Raises:
        SandboxError: If the sandbox cannot be made, or the task has several steps.
    """

    async def start() -> AsyncMachine:
        task = read_task(env_dir.parent)
        if len(task.steps) > 1:
            raise SandboxError(f"{env_dir.parent}: the recipe of tinker-cookbook has no tasks with several steps")
        environment, reach = task.environment, task.steps[0].agent.network or task.environment.network
        shape = shape_of(environment, reach=reach, lifetime_seconds=float(timeout))
        machine = await AsyncMachine.start(environment.image, shape, tags=("tinker",))
        try:
            await machine.make_ready(task)
        except BaseException:
            machine.close()
            raise
        return machine

    return SandrlSandbox(await _started(start()))


@dataclass(frozen=True)
class LostSandboxes(RolloutStrategy):  # type: ignore[misc] # the framework is not there for the type checker
    """A strategy of rollouts in which an episode fails if its sandbox was lost, also if tools and graders hide that.

    The tools of tinker-cookbook show the failure of a sandbox to the model, and its graders give the reward 0. With
    `rollout_error_tolerance=LostSandboxes(RetryOnFailure())`, another episode replaces this one.

    Attributes:
        strategy: Handles an episode that failed; `FailFast` ends the training.
    """

    strategy: RolloutStrategy = field(default_factory=FailFast)

    @property
    def catches_group_errors(self) -> bool:
        return bool(self.strategy.catches_group_errors)

    async def execute(self, env_group_builder: EnvGroupBuilder, policy: Any) -> RolloutResult:
        return await self.strategy.execute(_Watched(env_group_builder), policy)


class _Watched(EnvGroupBuilder):  # type: ignore[misc] # the framework is not there for the type checker
    def __init__(self, builder: EnvGroupBuilder) -> None:
        self._builder = builder

    async def make_envs(self) -> Sequence[Env]:
        envs: Sequence[Env] = await self._builder.make_envs()
        for env in envs:
            env.step = _watched(env.step)
        return envs


def _watched(step: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def watched(*given: Any, **named: Any) -> Any:
        losses: list[SandboxTerminatedError] = []
        token = _losses.set(losses)
        try:
            result = await step(*given, **named)
        finally:
            _losses.reset(token)
        if losses:
            raise losses[0]
        return result

    return watched


def _result(outcome: CommandOutcome, seconds: int, most_bytes: int = _OUTPUT_BYTES) -> SandboxResult:
    said, wrong = (each[:most_bytes].decode("utf-8", "replace") for each in (outcome.stdout, outcome.stderr))
    if outcome.timed_out:
        told = f"{wrong}the command exceeded its time limit of {seconds} s\n"
        return SandboxResult(stdout=said, stderr=told, exit_code=_TIMED_OUT)
    return SandboxResult(stdout=said, stderr=wrong, exit_code=outcome.exit_code or 0)


def _close_later(loop: asyncio.AbstractEventLoop, machine: AsyncMachine) -> None:
    # Garbage is collected anywhere, also where a lock is held that closing needs.
    with suppress(RuntimeError):  # the loop has been closed
        loop.call_soon_threadsafe(machine.close)


async def _started(starting: Awaitable[AsyncMachine]) -> AsyncMachine:
    try:
        return await starting
    except (SandrlError, Unprepared) as error:
        raise SandboxError(f"no sandbox was made: {error}") from error
