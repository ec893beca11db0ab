"""Events that a service emits for its operator."""

from __future__ import annotations

from dataclasses import dataclass

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class ServiceStarted(Event):
    """A service accepts requests.

    Attributes:
        address: Where.
        token_place: Where those who may use it find its token: a file, or a variable.
        problems: How many problems requests may name.
    """

    address: str
    token_place: str
    problems: int


@dataclass(frozen=True, slots=True)
class TinkerServed(Event):
    """A service of the Tinker API accepts requests.

    Attributes:
        address: Where.
        model: What clients call its model.
        key_place: Where those who may use it find its key: a file, or a variable.
        has_key_file: Whether that is a file.
    """

    address: str
    model: str
    key_place: str
    has_key_file: bool


@dataclass(frozen=True, slots=True)
class ServiceAsked(Event):
    """Completions are scored by a service.

    Attributes:
        address: Where.
        total: How many there will be.
    """

    address: str
    total: int


@dataclass(frozen=True, slots=True)
class ServiceLogged(Event):
    """Something for the log of a service; nothing in it was sent by a client.

    Attributes:
        text: What, in a line or several.
    """

    text: str


@dataclass(frozen=True, slots=True)
class ServiceStopping(Event):
    """A service accepts nothing more, and finishes what it has.

    Attributes:
        left: How many requests are in hand.
        seconds: How long they may take.
    """

    left: int
    seconds: float
