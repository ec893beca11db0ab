"""The local runtimes of this user, one for each environment: which jobs each serves, and what ends with it.

The jobs come from the registry and from a file of the daemon, so a daemon need not answer to be described.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandrl.deadlines import in_background
from sandrl.errors import RuntimeUnavailableError, SandrlError, SilentDaemonError
from sandrl.events import Emit, RuntimeWaitedFor, ignore
from sandrl.runtime import daemon
from sandrl.runtime.state import DaemonEndpoint, RuntimeDirectory, find_all, own_name
from sandrl.sandboxes.owner import Liveness, liveness
from sandrl.sandboxes.registry import JobEntry, read_jobs

# For a command that looks at all daemons.
_LOOK_PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class DaemonUse:
    """What a daemon is needed for.

    Attributes:
        jobs: The jobs with sandboxes in it whose process runs, newest first.
    """

    endpoint: DaemonEndpoint
    is_own: bool
    jobs: tuple[JobEntry, ...]
    sandboxes: int

    @property
    def place(self) -> str:
        return f"pid {self.endpoint.pid}, {self.endpoint.environment or f'sandrl {self.endpoint.version}'}"

    @property
    def loss(self) -> str:
        plural = "" if self.sandboxes == 1 else "es"
        of = f" of {', '.join(f'{job.command} ({job.job_id})' for job in self.jobs)}" if self.jobs else ""
        return f"{self.sandboxes} sandbox{plural}{of}"


def served_daemons(state_dir: Path) -> list[DaemonUse]:
    """All daemons of this user on this machine, that of this environment first."""
    found = find_all(state_dir)
    if not found:
        return []
    own = own_name()
    alive = [job for job in read_jobs(state_dir) if liveness(job.process) is Liveness.ALIVE]
    return [
        DaemonUse(
            endpoint,
            endpoint.name == own,
            tuple(job for job in alive if job.address and job.address == endpoint.base_url),
            RuntimeDirectory(state_dir, endpoint.name).count_sandboxes(),
        )
        for endpoint in found
    ]


@dataclass(frozen=True, slots=True)
class DaemonState:
    """A daemon and its state.

    Attributes:
        served: What it is needed for; None if there is no daemon.
        error: Why it says nothing; None if it answers.
    """

    status: daemon.RuntimeStatus
    served: DaemonUse | None = None
    error: SandrlError | None = None

    @property
    def problem(self) -> str | None:
        if self.error is None:
            return None
        return f"{self.error.message} ({self.error.hint})" if self.error.hint else self.error.message

    def raise_for_problem(self) -> None:
        """Ends the command with an error if the daemon does not answer.

        Raises:
            SandrlError: If it does not.
        """
        if self.error is not None:
            raise self.error


def describe_daemons(state_dir: Path, *, emit: Emit = ignore) -> tuple[DaemonState, list[DaemonState]]:
    """The daemon of this environment and those of all others, each with its state; all are asked at the same time."""

    def describe(served: DaemonUse) -> DaemonState:
        endpoint = served.endpoint
        try:
            return DaemonState(ask(endpoint, emit), served)
        except SandrlError as error:
            known = daemon.RuntimeStatus(True, endpoint.pid, endpoint.base_url, endpoint.version)
            return DaemonState(known, served, error)

    asked = [(each, in_background(partial(describe, each))) for each in served_daemons(state_dir)]
    described = [(each.is_own, future.result()) for each, future in asked]
    own = next((found for is_own, found in described if is_own), DaemonState(daemon.RuntimeStatus(running=False)))
    return own, [found for is_own, found in described if not is_own and found.status.running]


def ask(endpoint: DaemonEndpoint, emit: Emit) -> daemon.RuntimeStatus:
    """What a daemon says of itself, for a command that looks at all of them.

    Raises:
        SilentDaemonError: If it does not answer.
        RuntimeUnavailableError: If it answers with an error, or cannot be asked because its files are damaged.
    """
    if not endpoint.base_url:
        folder = RuntimeDirectory(endpoint.state_dir, endpoint.name).path
        raise RuntimeUnavailableError(
            f"the local runtime (pid {endpoint.pid}) cannot be asked, because its files in {folder} are damaged"
        )
    try:
        return daemon.status_of(
            endpoint,
            patience_seconds=_LOOK_PATIENCE_SECONDS,
            on_wait=lambda message: emit(RuntimeWaitedFor(message)),
        )
    except SilentDaemonError as error:
        raise refined(error, endpoint.state_dir) from error.__cause__


def refined(error: SilentDaemonError, state_dir: Path) -> SilentDaemonError:
    """The same error; where the end of the daemon is advised, the hint says what would be lost."""
    if error.is_wedged:
        served = next((each for each in served_daemons(state_dir) if each.endpoint.pid == error.pid), None)
        loss = f", and with it {served.loss}" if served is not None else ""
        error.hint = f"sandrl runtime logs may show the reason; kill -9 {error.pid} ends it{loss}"
    return error
