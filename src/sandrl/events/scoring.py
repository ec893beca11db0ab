"""Events of scoring completions."""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.events.event import Event
from sandrl.events.results import Opinion, ScoredCompletion


@dataclass(frozen=True, slots=True)
class CompletionStarted(Event):
    """A completion was handed to a cell or a sandbox.

    Attributes:
        index: Position in the input, from 0.
        id: The completion's own id.
        task_id: The problem it answers.
        attempt: 1, or more when it is tried again.
    """

    index: int
    id: str
    task_id: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class CompletionFinished(Event):
    """A completion has its final verdict.

    Attributes:
        result: What became of it.
        finished: How many completions are finished, this one included.
        of: How many there are.
    """

    result: ScoredCompletion
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class OpinionFinished(Event):
    """A failed completion was judged again in plain Python, in one process; its result stays as it is.

    Attributes:
        result: Its result.
        opinion: What it does in one process.
    """

    result: ScoredCompletion
    opinion: Opinion


@dataclass(frozen=True, slots=True)
class OpinionsAwaited(Event):
    """Every completion has its result, and second opinions are still to come.

    Attributes:
        left: How many.
    """

    left: int


@dataclass(frozen=True, slots=True)
class ExecutionFinished(Event):
    """A command of a completion ended in its sandbox, or never got there.

    It is not emitted for canaries, warm-ups and second opinions.

    Attributes:
        task_id: The problem it belongs to.
        sandbox_id: Where it ran; None if there was no sandbox.
        outcome: `success` (it exited 0), `failure` (it exited otherwise) or `error` (a timeout, a lost sandbox).
        index: Position of the completion in the input, from 0; None for a command of a rollout.
        returncode: Its exit code; None if it has none.
        queue_seconds: How long it waited for its turn; None where it did not wait in a queue.
        startup_seconds: From asking for the sandbox until it ran; None if that is not known, or it ran
            already, as for a cell.
        exec_seconds: From then on until the command had ended; None if it never ran.
        judge_seconds: Of that, the code with its checks, by the clock inside the sandbox.
        stdout_bytes: How much the code printed.
        stderr_bytes: How much it printed as errors.
        error: What went wrong with the sandbox, in one line; empty if nothing did.
        in_cell: Whether it ran in a cell of that sandbox, which others share.
    """

    task_id: str
    sandbox_id: str | None
    outcome: str
    index: int | None = None
    returncode: int | None = None
    queue_seconds: float | None = None
    startup_seconds: float | None = None
    exec_seconds: float | None = None
    judge_seconds: float | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    error: str = ""
    in_cell: bool = False


@dataclass(frozen=True, slots=True)
class RetryScheduled(Event):
    """A completion will be tried again in a fresh sandbox.

    Attributes:
        index: Position in the input, from 0.
        attempt: The number of the coming attempt.
        of: How many attempts there will be, as far as is known.
        reason: What went wrong.
        delay_seconds: How long it waits before that.
        id: The completion's own id.
        task_id: The problem it answers.
    """

    index: int
    attempt: int
    of: int
    reason: str
    delay_seconds: float = 0.0
    id: str = ""
    task_id: str = ""


@dataclass(frozen=True, slots=True)
class CanaryFinished(Event):
    """A known-good program ran to find out whether a completion or the runtime is to blame.

    Attributes:
        index: Position of the completion in the input, from 0.
        passed: Whether it got the verdict it must get; if not, the runtime is broken.
        sandbox_id: Where it ran; None if it got no sandbox.
        same_sandbox: Whether that is the one the completion failed in.
        id: The completion's own id.
        task_id: The problem it answers.
    """

    index: int
    passed: bool
    sandbox_id: str | None
    same_sandbox: bool
    id: str = ""
    task_id: str = ""
