"""Events of creating a policy and of requests to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandrl.events.event import Event


@dataclass(frozen=True, slots=True)
class PolicyBuilding(Event):
    """A policy is being made.

    Attributes:
        name: Its name.
        stage: What it learns from.
        step: The step in that stage, from 1.
        right: The share of right answers it samples by now; None where it was not measured.
    """

    name: str
    stage: str
    step: int
    right: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyReady(Event):
    """A policy can be loaded.

    Attributes:
        name: Its name.
        path: Its directory.
        seconds: How long it took.
        cached: Whether it was there already.
    """

    name: str
    path: str
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class TokenLimitFound(Event):
    """It is known how long the answers of a model may be, where the user did not say.

    Attributes:
        tokens: The most tokens of an answer; None if no limit is set here.
        why: Where that comes from, as a clause without its full stop.
    """

    tokens: int | None
    why: str


@dataclass(frozen=True, slots=True)
class EndpointLimited(Event):
    """An endpoint limits requests, so all of them wait; nothing is lost.

    Attributes:
        address: The endpoint.
        reason: What it said, in one line.
        seconds: How long requests wait, from now.
        per_second: How many were answered in a second since requests waited last; None if none was.
    """

    address: str
    reason: str
    seconds: float
    per_second: float | None


@dataclass(frozen=True, slots=True)
class ModelSettingsFound(Event):
    """A model in this process has generation settings of its own that differ from those that do nothing.

    Attributes:
        name: The model.
        settings: These settings, by transformers' names.
        are_used: Whether they are applied, because the user asked for it.
    """

    name: str
    settings: Mapping[str, object]
    are_used: bool


@dataclass(frozen=True, slots=True)
class PolicyAsked(Event):
    """A policy is about to be asked.

    Attributes:
        name: Its name.
        problems: How many problems it is shown.
        answers: How many answers it gives to each.
    """

    name: str
    problems: int
    answers: int
