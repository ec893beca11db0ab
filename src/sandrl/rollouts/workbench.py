"""The one sandbox of an episode: made with its first use, kept between uses, gone with the episode.

The design decision: what a policy brings about is an observation, whatever it is. Output, a timeout, a file that is not
there, even the loss of the sandbox are text that the policy reads and can react to; nothing of it ends an episode.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from sandrl.errors import InfrastructureError
from sandrl.events import Emit, ExecutionFinished, ignore
from sandrl.runs import ROLLOUT_TAG
from sandrl.sandboxes import Command, Job, Launch, Outcome, problem_tag

OBSERVATION_CHARACTERS = 2000
"""The longest observation; what is longer loses its middle."""


class Workplace(Protocol):
    """Where a workbench has its sandbox from."""

    def bench(self, task_id: str) -> Workbench:
        """A workbench for an episode about a problem."""
        ...

    def run(self, task_id: str, argv: tuple[str, ...], stdin: bytes, within: Launch | None) -> tuple[Launch, Outcome]:
        """Runs a command in a fresh sandbox, or in one that is kept; returns the launch that keeps it now.

        Raises:
            InfrastructureError: If the sandbox failed, not the command; it is gone then.
        """
        ...

    def release(self, launch: Launch) -> None:
        """Begins to stop a sandbox that was kept."""
        ...


class Workshop:
    """Where episodes get their sandboxes: one job, which one thread at a time may use.

    Args:
        job: Owns the sandboxes.
        timeout_seconds: Wall time of one command.
        emit: Told of every command.
    """

    def __init__(self, job: Job, *, timeout_seconds: float = 10.0, emit: Emit = ignore) -> None:
        self._job = job
        self._timeout_seconds = timeout_seconds
        self._emit = emit
        self._lock = threading.Lock()

    def bench(self, task_id: str) -> Workbench:
        """A workbench for an episode about a problem."""
        return Workbench(self, task_id)

    def run(self, task_id: str, argv: tuple[str, ...], stdin: bytes, within: Launch | None) -> tuple[Launch, Outcome]:
        """Runs a command in a fresh sandbox, or in one that is kept; returns the launch that keeps it now.

        Raises:
            InfrastructureError: If the sandbox failed, not the command; it is gone then.
        """
        command = Command(argv, stdin, self._timeout_seconds)
        began = time.monotonic()
        with self._lock:
            launch = self._job.launch(command, tags=(ROLLOUT_TAG, problem_tag(task_id)), within=within)
            self._wait_for(launch)
            try:
                outcome = self._job.collect(launch, keep=True)
            except InfrastructureError as error:
                self._job.release(launch)
                self._emit(ExecutionFinished(task_id, launch.sandbox_id, "error", error=error.message))
                raise
        self._emit(command_finished(task_id, outcome, time.monotonic() - began))
        return launch, outcome

    def release(self, launch: Launch) -> None:
        """Begins to stop a sandbox that was kept."""
        with self._lock:
            self._job.release(launch)

    def _wait_for(self, launch: Launch) -> None:
        while True:
            for ended in self._job.wait_any():
                if ended is launch:
                    return
                # The job was used before, by work that an error or Ctrl-C tore open.
                with suppress(InfrastructureError):
                    self._job.collect(ended)


class Workbench:
    """The sandbox of one episode.

    Args:
        workshop: Where it comes from.
        task_id: The problem that is worked on.
        shorten: Cuts what is too long for a policy to read.

    Attributes:
        loss: Why the sandbox was lost, the last time it was; empty if it never was.
    """

    def __init__(self, workshop: Workplace, task_id: str, *, shorten: Callable[[str], str] | None = None) -> None:
        self._workshop = workshop
        self._task_id = task_id
        self._shorten = shorten or _shortened
        self._launch: Launch | None = None
        self.loss = ""

    def run(self, *argv: str, stdin: str = "") -> str:
        """Runs a command; returns what a policy is to read about it."""
        outcome = self.outcome(*argv, stdin=stdin)
        if outcome is None:
            return "error: the sandbox was lost, with its files; the next command gets a new one"
        return self.told(outcome)

    def outcome(self, *argv: str, stdin: str = "") -> Outcome | None:
        """Runs a command; returns how it ended, or None if the sandbox was lost."""
        try:
            content = stdin.encode("utf-8", "backslashreplace")
            self._launch, outcome = self._workshop.run(self._task_id, argv, content, self._launch)
        except InfrastructureError as error:
            self._launch = None
            self.loss = error.message
            return None
        return outcome

    def told(self, outcome: Outcome) -> str:
        """What a policy is to read about how a command ended."""
        parts = [part.decode("utf-8", "replace").strip("\n") for part in (outcome.stdout, outcome.stderr)]
        text = self._shorten("\n".join(part for part in parts if part))
        if outcome.timed_out:
            return f"{text}\nerror: timeout".lstrip("\n")
        if outcome.exit_code:
            return f"{text}\nerror: exit code {outcome.exit_code}".lstrip("\n")
        return text or "(no output)"

    def close(self) -> None:
        """Begins to stop the sandbox, if there is one; closing twice is fine."""
        if self._launch is not None:
            self._workshop.release(self._launch)
            self._launch = None


def command_finished(task_id: str, outcome: Outcome, seconds: float) -> ExecutionFinished:
    """The event that tells of a command of an episode.

    Args:
        task_id: The problem that is worked on.
        outcome: How it ended.
        seconds: From handing it over to its end.
    """
    word = "error" if outcome.timed_out else "success" if outcome.exit_code == 0 else "failure"
    return ExecutionFinished(
        task_id,
        outcome.sandbox_id,
        word,
        returncode=outcome.exit_code,
        exec_seconds=seconds,
        stdout_bytes=len(outcome.stdout),
        stderr_bytes=len(outcome.stderr),
    )


def _shortened(text: str) -> str:
    if len(text) <= OBSERVATION_CHARACTERS:
        return text
    half = OBSERVATION_CHARACTERS // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
