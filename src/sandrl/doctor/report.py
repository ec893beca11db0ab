"""The result of an examination."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """How a check came out."""

    OK = "ok"
    FAILED = "failed"
    ABSENT = "absent"
    """Not there, which is no fault: an extra, a key, a GPU."""
    SKIPPED = "skipped"
    """Not asked."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: A few words.
        state: How it came out.
        detail: What was seen, in one line; never a secret.
        hint: What to do about it, where there is something.
    """

    name: str
    state: State
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What keeps completions from being scored.

    Attributes:
        message: What it is.
        hint: The one thing to do about it.
    """

    message: str
    hint: str | None


@dataclass(slots=True)
class Report:
    """All that was found.

    Attributes:
        sections: Checks by subject, in the order they are shown.
        problem: Why completions cannot be scored here; None if they can.
    """

    sections: dict[str, list[Check]] = field(default_factory=dict)
    problem: Finding | None = None
