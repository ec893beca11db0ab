"""What happens while sandrl works, as typed facts.

The design decision: library code never prints. It calls an `Emit` with one of these frozen records, and whoever started
the work decides what to do with it: the command line draws, a trainer logs, a test collects. Records carry plain values
only, so that this module depends on nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""


Emit: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drops the event: the `Emit` of those who do not care."""


@dataclass(frozen=True, slots=True)
class RuntimeChosen(Event):
    """Sandboxes will come from this runtime.

    Attributes:
        kind: `local` or `remote`.
        reason: Why, in a few words.
        address: Where it is reached.
        image: The container image of its sandboxes.
        isolation: How the local runtime isolates; empty for the remote one.
    """

    kind: str
    reason: str
    address: str
    image: str
    isolation: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeStarting(Event):
    """The local runtime's daemon is being started; this takes a moment."""

    message: str


@dataclass(frozen=True, slots=True)
class JobStarted(Event):
    """A job begins to own sandboxes.

    Attributes:
        job_id: The tag that finds all of its sandboxes.
        total: How many completions it will score; 0 when unknown.
        concurrency: How many sandboxes it works with at once.
    """

    job_id: str
    total: int = 0
    concurrency: int = 1


@dataclass(frozen=True, slots=True)
class SandboxCreated(Event):
    """A sandbox came to be; told when its id is learned, which is when its first command ends."""

    sandbox_id: str


@dataclass(frozen=True, slots=True)
class SandboxStopped(Event):
    """A sandbox is gone."""

    sandbox_id: str


@dataclass(frozen=True, slots=True)
class CompletionStarted(Event):
    """A completion was handed to a sandbox.

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
        index: Position in the input, from 0.
        id: The completion's own id.
        task_id: The problem it answers.
        status: A `sandrl.rewards.Status`.
        reward: The reward, or None where nothing can be said about the code.
        passed: Checks passed.
        total: Checks there are.
        duration_seconds: From handing it over to its verdict.
        detail: Why, in one line; text of the model's making, to be shown with care.
        finished: How many completions are finished, this one included.
        of: How many there are.
    """

    index: int
    id: str
    task_id: str
    status: str
    reward: float | None
    passed: int
    total: int
    duration_seconds: float
    detail: str
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class RetryScheduled(Event):
    """A completion will be tried again in a fresh sandbox.

    Attributes:
        index: Position in the input, from 0.
        attempt: The number of the coming attempt.
        of: How many attempts there will be, as far as is known.
        reason: What went wrong.
        delay_seconds: How long it waits before that.
    """

    index: int
    attempt: int
    of: int
    reason: str
    delay_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CanaryFinished(Event):
    """A known-good program ran to find out whether a completion or the runtime is to blame.

    Attributes:
        index: Position of the completion in the input, from 0.
        passed: Whether it got the verdict it must get; if not, the runtime is broken.
        sandbox_id: Where it ran; None if it got no sandbox.
        same_sandbox: Whether that is the one the completion failed in.
    """

    index: int
    passed: bool
    sandbox_id: str | None
    same_sandbox: bool


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """The user asked to stop.

    Attributes:
        cancel: False: what is in flight is finished first; True: it is cancelled.
        in_flight: How many sandboxes are at work.
    """

    cancel: bool
    in_flight: int


@dataclass(frozen=True, slots=True)
class CleaningUp(Event):
    """The job is waiting for its last sandboxes to be gone."""

    sandboxes: int


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something the user should know that stops nothing.

    Attributes:
        message: What, in one line.
        hint: What to do about it, in one line.
    """

    message: str
    hint: str | None = None
