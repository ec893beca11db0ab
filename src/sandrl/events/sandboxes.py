"""Events of sandboxes: where they are created, when they start and end, and why they cannot be created."""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class RuntimeChosen(Event):
    """Sandboxes will come from this runtime.

    Attributes:
        kind: `local`, `remote` or another provider.
        reason: Why, in a few words.
        address: Where it is reached.
        image: The container image of its sandboxes.
        isolation: How it isolates on this machine; empty for the remote one.
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
class RuntimeWaitedFor(Event):
    """The local runtime's daemon does not answer at the moment, and is waited for."""

    message: str


@dataclass(frozen=True, slots=True)
class PackagesInstalling(Event):
    """Packages for sandboxes are being installed from the package index; this can take minutes."""

    requirements: tuple[str, ...]


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
class SandboxesHeld(Event):
    """Sandboxes of the job existed for so long, summed over them, since this was told last.

    Below 0 where sandboxes of other machines have ended earlier than was known then.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class BudgetReached(Event):
    """The budget is used up, or the next completion would exceed it: nothing more is begun.

    Attributes:
        budget: The budget as the user has written it.
        seconds: The sandbox time that the run has used.
        cancel: Whether what is under way is cancelled, too, because the budget is exceeded by one completion.
    """

    budget: str
    seconds: float
    cancel: bool


@dataclass(frozen=True, slots=True)
class StopFinished(Event):
    """One of many sandboxes that are being cleaned up was dealt with.

    Attributes:
        sandbox_id: Which.
        outcome: `stopped`, `already gone` or `failed`.
        detail: Why it failed, in one line.
        finished: How many were dealt with, this one included.
        of: How many there are.
    """

    sandbox_id: str
    outcome: str
    detail: str
    finished: int
    of: int


@dataclass(frozen=True, slots=True)
class CreationSlowed(Event):
    """The service has no room for more sandboxes; what has none yet waits, and fails for no such reason.

    Attributes:
        reason: What the service says.
        delay_seconds: How long until the next is asked for.
    """

    reason: str
    delay_seconds: float


@dataclass(frozen=True, slots=True)
class CleaningUp(Event):
    """The job is waiting for its last sandboxes to be gone."""

    sandboxes: int
