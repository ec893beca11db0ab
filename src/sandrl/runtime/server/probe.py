"""The startup probe of a container: a command that must succeed before the sandbox counts as started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.host.process import Exit
from sandrl.runtime.host.sandbox import HostSandbox, StartError
from sandrl.runtime.server import faults

# The defaults of Kubernetes.
_PERIOD_SECONDS, _TIMEOUT_SECONDS, _FAILURES = 10, 1, 3


@dataclass(frozen=True)
class StartupProbe:
    """A command, run every `period_seconds`, that may fail `failures` times, or take longer than `timeout_seconds`."""

    command: tuple[str, ...]
    delay_seconds: int
    period_seconds: int
    timeout_seconds: int
    failures: int

    @classmethod
    def of(cls, container: pb.Container) -> StartupProbe:
        """The probe of a container that has one.

        Raises:
            faults.Fault: If it has no command, or a number is negative.
        """
        given = container.startup_probe
        place = "sandbox.spec.containers[0].startup_probe"
        if not given.exec:
            raise faults.invalid("a startup probe needs a command", f"{place}.exec")
        numbers = (given.initial_delay_seconds, given.period_seconds, given.timeout_seconds, given.failure_threshold)
        if min(numbers) < 0:
            raise faults.invalid("the numbers of a startup probe are not negative", place)
        delay, period, timeout, failures = numbers
        return cls(
            tuple(given.exec), delay, period or _PERIOD_SECONDS, timeout or _TIMEOUT_SECONDS, failures or _FAILURES
        )

    async def wait(self, host: HostSandbox, environment: Mapping[str, str], directory: str) -> str | None:
        """Run the command until it succeeds; returns None then, or how it failed the last time.

        Raises:
            SandboxGoneError: If the sandbox ended.
        """
        await asyncio.sleep(self.delay_seconds)
        for number in range(1, self.failures + 1):
            failure = await self._run(host, environment, directory)
            if failure is None or number == self.failures:
                return failure
            await asyncio.sleep(self.period_seconds)
        return None

    async def _run(self, host: HostSandbox, environment: Mapping[str, str], directory: str) -> str | None:
        try:
            number, process = await host.start(self.command, environment, directory=directory, merge_output=True)
        except StartError as error:
            return str(error)
        process.close_stdin()
        try:
            async with asyncio.timeout(self.timeout_seconds):
                while not isinstance(output := await process.next_output(), Exit):
                    continue
        except TimeoutError:
            host.kill(number)
            return f"it took longer than {self.timeout_seconds} s"
        return f"it ended with {output.code}" if output.code else None
