"""Events of evaluation sets."""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class MemberStarted(Event):
    """An evaluation of a set begins.

    Attributes:
        member: Which.
        run_id: Its run.
        resumes: Whether it goes on with what the run has.
    """

    member: str
    run_id: str
    resumes: bool


@dataclass(frozen=True, slots=True)
class MemberTold(Event):
    """Something happened in an evaluation of a set.

    Attributes:
        member: Which.
        event: What.
    """

    member: str
    event: Event


@dataclass(frozen=True, slots=True)
class MemberFinished(Event):
    """An evaluation of a set is over.

    Attributes:
        member: Which.
        finished: How many are over by now.
        of: How many there are.
        error: What it failed with; empty if it did not.
        hint: What to do next then; empty if nothing is known.
        was_complete: Whether it was complete before, so nothing was done.
    """

    member: str
    finished: int
    of: int
    error: str = ""
    hint: str = ""
    was_complete: bool = False
