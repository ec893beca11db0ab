"""The card of a problem: what was measured about the quality of its verifier, or of its checks.

A part of a card is None as long as nobody has measured it. A validation measures some parts and a campaign of cheats
the others; `merged` makes one card of both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from sandrl.runs.rows import Stored, Text, now


class Cheat(BaseModel):
    """A cheat that earned a reward.

    Attributes:
        reward: What it earned, more than an agent that does nothing.
        stopped_by: The settings under which it was tried again and earned nothing more, by name.
        advice: What else stops it, in one line; empty if a setting does.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    group: str
    reward: float
    stopped_by: tuple[str, ...] = ()
    advice: str = ""


class Mutant(BaseModel):
    """A change to the final state of the solution, after which the reward must be lower.

    Attributes:
        path: The file that was changed; empty for what is no file, such as a process.
        reward: None if the changed state could not be scored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    path: Text = ""
    reward: float | None = None
    is_killed: bool = False


class Card(Stored):
    """What is known about the quality of one problem.

    Attributes:
        digest: Stands for the content of the problem: a card is that of this content alone.
        oracle: The mean reward of its solution, or reference.
        oracle_runs: How often the solution ran and was scored; `oracle_passes` of these earned 1.
        nop: The highest reward of an agent that does nothing, or of a stub.
        stubs: Labels of the stubs that its checks accept; only problems that are no tasks have stubs.
        flake_rate: The share of runs whose outcome differs from that of most runs of the same agent: another reward, or
            a verifier that failed before it gave one. That of the solution or of doing nothing, whichever is higher.
        flake_low: The lower end of the 95% interval (Wilson 1927) of the flake rate; `flake_high` the upper one.
        flake_runs: How many runs it was measured on.
        null_runs: How many runs have no reward; `null_reason` says why the first has none.
        cheats_tried: How many cheats, or exploits, were tried; `cheats` are those that earned something.
        mutants: The mutants that were tried.
        seconds: The median time of each phase of a run of the solution, else of a run without an agent, by name.
        image_bytes: Size of the unpacked image; `state_bytes` the size of what the solution changes, packed.
        network: The network mode of each phase (`agent`, `verifier`).
        reached: Hosts that its programs reached; None if that was not observed.
    """

    file = "cards"

    task_id: Text
    kind: str
    digest: str
    measured_at: datetime = Field(default_factory=now)
    oracle: float | None = None
    oracle_runs: int = 0
    oracle_passes: int = 0
    nop: float | None = None
    nop_runs: int = 0
    stubs: tuple[str, ...] | None = None
    flake_rate: float | None = None
    flake_low: float | None = None
    flake_high: float | None = None
    flake_runs: int = 0
    null_runs: int = 0
    null_reason: Text = ""
    cheats_tried: int | None = None
    cheats: tuple[Cheat, ...] = ()
    mutants: tuple[Mutant, ...] | None = None
    seconds: dict[str, float] = Field(default_factory=dict)
    image_bytes: int | None = None
    state_bytes: int | None = None
    network: dict[str, str] = Field(default_factory=dict)
    reached: tuple[Text, ...] | None = None

    @property
    def mutation_score(self) -> float | None:
        """The share of the scored mutants that earned less than the solution; None without any."""
        scored = [each for each in self.mutants or () if each.reward is not None]
        return sum(each.is_killed for each in scored) / len(scored) if scored else None

    @property
    def parts(self) -> dict[str, float | None]:
        """The parts of the quality, each from 0 to 1, or None if it is unknown."""
        return {
            "oracle": self.oracle_passes / self.oracle_runs if self.oracle_runs else None,
            "nop": None if self.nop is None else 1.0 - _share(self.nop),
            "flake": None if self.flake_rate is None else 1.0 - self.flake_rate,
            "cheats": None
            if self.cheats_tried is None
            else 1.0 - max((_share(each.reward) for each in self.cheats), default=0.0),
            "mutants": self.mutation_score,
        }

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts that nobody has measured, or that cannot be measured."""
        return tuple(name for name, value in self.parts.items() if value is None)

    @property
    def weakest(self) -> str | None:
        """The part with the lowest value; None if no part is known."""
        known = {name: value for name, value in self.parts.items() if value is not None}
        return min(known, key=lambda name: known[name], default=None)

    @property
    def quality(self) -> float | None:
        """The value of the weakest part, because a policy finds it; None if no part is known."""
        return None if self.weakest is None else self.parts[self.weakest]


def merged(cards: Iterable[Card]) -> dict[str, Card]:
    """One card of each content, by digest: a later card replaces those parts of an earlier one that it has measured."""
    found: dict[str, Card] = {}
    for card in cards:
        before = found.get(card.digest)
        if before is None:
            found[card.digest] = card
            continue
        taken: dict[str, object] = {"task_id": card.task_id, "measured_at": card.measured_at}
        for marks, names in _MEASURED_TOGETHER.items():
            if any(getattr(card, mark) for mark in marks):
                taken |= {name: getattr(card, name) for name in (*marks, *names)}
        for name in _MEASURED_ALONE:
            if (value := getattr(card, name)) not in (None, {}):
                taken[name] = value
        found[card.digest] = before.model_copy(update=taken)
    return found


# What says that something was measured, and what was measured with it.
_MEASURED_TOGETHER: dict[tuple[str, ...], tuple[str, ...]] = {
    ("oracle_runs",): ("oracle", "oracle_passes"),
    ("nop_runs",): ("nop",),
    ("flake_runs",): ("flake_rate", "flake_low", "flake_high"),
    ("oracle_runs", "nop_runs", "null_runs"): ("null_reason",),
    ("cheats_tried",): ("cheats",),
}
_MEASURED_ALONE = ("stubs", "mutants", "seconds", "image_bytes", "state_bytes", "network", "reached")


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 1.0
