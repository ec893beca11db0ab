"""The base class of events, and the type of the functions that receive them.

An event is emitted by one function call, so the code that emits it does not depend on its receivers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class LogLevel(StrEnum):
    """Which events are logged: each level includes those after it."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""


Emit: TypeAlias = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drops the event: the default `Emit`."""


def all_of(*listeners: Emit) -> Emit:
    """Returns an `Emit` that calls several others, in this order."""

    def tell(event: Event) -> None:
        for listener in listeners:
            listener(event)

    return tell
