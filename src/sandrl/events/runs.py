"""Events that any command may emit."""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something the user should know that stops nothing.

    Attributes:
        message: What, in one line.
        hint: What to do about it, in one line.
        fields: The fields that both name, as in `sandrl.errors.SandrlError`.
    """

    message: str
    hint: str | None = None
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunOpened(Event):
    """A run directory was made, or is gone on with; told by the first process of a job.

    Attributes:
        run_id: Its name.
        path: The directory.
    """

    run_id: str
    path: str


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
class ReportingStarted(Event):
    """Metrics go to Weights & Biases, too.

    Attributes:
        run_id: The W&B run.
        place: Its address, or the directory in which it waits to be synced.
        is_online: Whether it is uploaded as it goes.
    """

    run_id: str
    place: str
    is_online: bool
