"""The result of an examination."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
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
        detail: What was seen, in one line; never a secret.
    """

    name: str
    state: State
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What keeps completions from being scored."""

    message: str
    hint: str | None


@dataclass(slots=True)
class Report:
    """All that was found.

    Attributes:
        problem: Why completions cannot be scored here; None if they can.
    """

    sections: dict[str, list[Check]] = field(default_factory=dict)
    problem: Finding | None = None
