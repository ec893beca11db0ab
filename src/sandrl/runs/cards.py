"""The card of a problem has the measurements of the quality of its verifier, or of its checks.

A part of a card is None as long as it was not measured. A validation measures some parts and a campaign of cheats
the others; `merged` makes one card of both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from sandrl.bounds import finite
from sandrl.config.words import VerifierPlace
from sandrl.runs.rows import Stored, Text, now

_Runs: TypeAlias = Annotated[int, Field(ge=0)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

PARTS = ("oracle", "nop", "flake", "cheats", "mutants")
"""The parts of the quality of a problem, in the order in which they are measured."""

_RUN_PLACES = (VerifierPlace.SEPARATE, VerifierPlace.ARTIFACTS)


class Cheat(BaseModel):
    """A cheat that earned a reward.

    Attributes:
        reward: What it earned, more than an agent that does nothing.
        stopped_by: The settings under which it was tried again and earned nothing more, by name.
        advice: What else stops it, in one line; empty if a setting does.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    name: Text
    group: Text
    reward: float
    stopped_by: tuple[Text, ...] = ()
    advice: Text = ""


class Mutant(BaseModel):
    """A change to the final state of the solution, after which the reward must be lower.

    Attributes:
        path: The file that was changed; empty for what is no file, such as a process.
        reward: None if the changed state could not be scored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="strings")

    name: Text
    path: Text = ""
    reward: float | None = None
    is_killed: bool = False


class Card(Stored):
    """What is known about the quality of one problem.

    Attributes:
        digest: Stands for the content of the problem: a card is that of this content alone.
        verifier: Where shared verifiers ran that it is about, a value of `VerifierPlace`.
        oracle: The mean reward of its solution, or reference.
        oracle_runs: How often the solution ran and was scored; `oracle_passes` of these earned 1.
        oracle_under: What the solution earned under each setting that cheats were tried under, by its name.
        nop: The highest reward of an agent that does nothing, or of a stub.
        stubs: Labels of the stubs that its checks accept; only problems that are no tasks have stubs.
        flake_rate: The share of runs whose outcome differs from that of most runs of the same agent: another reward, or
            a verifier that failed before it gave one. That of the solution, or of doing nothing where the solution
            shows none.
        flake_low: The lower end of the 95% interval (Wilson 1927) of the flake rate; `flake_high` the upper one.
        flake_runs: How many runs it was measured on.
        null_runs: How many runs have no reward; `null_reason` says why the first has none.
        cheats_tried: How many cheats, or exploits, were tried and scored; `cheats` are those that earned something.
        cheats_unscored: How many more have no reward.
        cheats_left_out: How many the campaign was not to try: as long as none earns anything, the part is unknown.
        mutants: The mutants that were tried.
        seconds: The median time of each phase of a run of the solution, else of a run without an agent, by name.
        image_bytes: Size of the unpacked image; `state_bytes` the size of what the solution changes, packed.
        network: The network mode of each phase (`agent`, `verifier`).
        reached: Hosts that its programs reached; None if that was not observed.
    """

    file = "cards"

    task_id: Text
    kind: Text
    digest: Text
    verifier: Text = VerifierPlace.TASK.value
    measured_at: AwareDatetime = Field(default_factory=now)
    oracle: float | None = None
    oracle_runs: _Runs = 0
    oracle_passes: _Runs = 0
    oracle_under: dict[str, float] = Field(default_factory=dict)
    nop: float | None = None
    nop_runs: _Runs = 0
    stubs: tuple[Text, ...] | None = None
    flake_rate: _Share | None = None
    flake_low: _Share | None = None
    flake_high: _Share | None = None
    flake_runs: _Runs = 0
    null_runs: _Runs = 0
    null_reason: Text = ""
    cheats_tried: _Runs | None = None
    cheats_unscored: _Runs = 0
    cheats_left_out: _Runs = 0
    cheats: tuple[Cheat, ...] = ()
    mutants: tuple[Mutant, ...] | None = None
    seconds: dict[str, float] = Field(default_factory=dict)
    image_bytes: int | None = None
    state_bytes: int | None = None
    network: dict[str, str] = Field(default_factory=dict)
    reached: tuple[Text, ...] | None = None

    @property
    def is_task(self) -> bool:
        return self.kind == "task"

    @property
    def key(self) -> str:
        """Names the content, and where its verifiers ran if that is not where the task says."""
        return _key(self.digest, self.verifier)

    @property
    def mutation_score(self) -> float | None:
        """The share of the scored mutants that earned less than the solution; None without any."""
        scored = [each for each in self.mutants or () if each.reward is not None]
        return sum(each.is_killed for each in scored) / len(scored) if scored else None

    @property
    def parts(self) -> dict[str, float | None]:
        """The parts of the quality, each from 0 to 1, or None if it is unknown."""
        return {
            "oracle": _share(self.oracle_passes / self.oracle_runs) if self.oracle_runs else None,
            "nop": None if self.nop is None else 1.0 - _share(self.nop),
            "flake": None if self.flake_rate is None else 1.0 - self.flake_rate,
            "cheats": 1.0 - max((_share(each.reward) for each in self.cheats), default=0.0)
            if self.cheats_tried and (self.cheats or not self.cheats_left_out)
            else None,
            "mutants": self.mutation_score,
        }

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts that were not measured, or cannot be."""
        return tuple(name for name, value in self.parts.items() if value is None)

    @property
    def quality(self) -> float | None:
        """The value of the weakest known part, because a policy finds it; None if no part is known.

        It is an upper bound: a part that is still unknown can only lower it.
        """
        return min((value for value in self.parts.values() if value is not None), default=None)

    @property
    def weakest(self) -> str | None:
        """The first part that has this value; None if no part is known, or all known parts are 1."""
        quality = self.quality
        return None if quality in (None, 1.0) else next(name for name, each in self.parts.items() if each == quality)

    @property
    def quality_under(self) -> dict[str, float | None]:
        """Its quality under each place of verifiers that a run may choose; empty if that changes nothing."""
        if not self.is_task or self.verifier != VerifierPlace.TASK:
            return {}
        return {place.value: self.under(place).quality for place in _RUN_PLACES}

    def under(self, setting: str) -> Card:
        """What follows from it for a run under a setting: cheats that the setting stops do not count.

        The solution earns what it was seen to earn there, and is unknown if it was not tried.
        """
        if setting == self.verifier or not self.is_task:
            return self
        reward = self.oracle_under.get(setting)
        found: dict[str, object] = {
            "verifier": setting,
            "oracle": reward,
            "oracle_runs": int(reward is not None),
            "oracle_passes": int((reward or 0.0) >= 1),
            "oracle_under": {},
            "nop_runs": 0,
            "cheats": tuple(each for each in self.cheats if setting not in each.stopped_by),
        }
        return self.model_copy(update=found)


def merged(cards: Iterable[Card]) -> dict[str, Card]:
    """One card of each `key`: of each part the measurement with most runs, and of equal ones the latest.

    So one more run of a solution, which a campaign of cheats needs, replaces no validation of a hundred. A smaller
    campaign adds the cheats that it has found. The cards that were measured last come last.
    """
    found: dict[str, Card] = {}
    for card in cards:
        before = found.pop(card.key, None)
        found[card.key] = card if before is None else _joined(before, card)
    return found


def card_under(cards: Mapping[str, Card], digest: str, setting: str) -> Card | None:
    """The card of a content for a run under a setting: what was measured under it, else what follows for it.

    Args:
        cards: By their `key`.
    """
    measured, plain = cards.get(_key(digest, setting)), cards.get(digest)
    if measured is None or plain is None or measured is plain:
        return measured or (plain and plain.under(setting))
    return _joined(plain.under(setting), measured)


def card_document(card: Card) -> dict[str, Any]:
    """A card as plain data, the same in every command and in the viewer; None is what is unknown."""
    document = card.model_dump(mode="json", by_alias=True, exclude={"schema_version", "digest", "measured_at"})
    numbers = {"quality": card.quality, "weakest": card.weakest, "unknown": list(card.unknown), "parts": card.parts}
    names = {"task_id": card.task_id, "kind": card.kind}
    rest = {"quality_under": card.quality_under, "digest": card.digest, "measured_at": card.measured_at.isoformat()}
    found = {**names, **numbers, **document, "mutation_score": card.mutation_score, **rest}
    return {name: finite(value) for name, value in found.items()}


@dataclass(frozen=True, slots=True)
class CardSet:
    """The card of a set of problems: what is known about their quality, together.

    Attributes:
        problems: How many the set has; `measured` of them have a card with a quality.
        known: How many have each part measured, by its name.
        weakest: How many have each part as their weakest one, by its name; only of those whose quality is less than 1.
        mean: The mean quality of those that are measured; None without any.
        least: The lowest quality, that of the problem `least_of`.
        perfect: How many have a quality of 1, as far as it is measured.
        idle: How many reward an agent that does nothing, or a stub.
        unsolvable: How many have a solution, or a reference, that does not always earn 1.
        flaky: How many have a verifier with two outcomes for the same agent.
        cheated: How many reward a cheat, or an exploit.
        earning: How many cheats earn something, of all problems; `stopped` of these by each setting, by its name.
        under: The mean quality under each place of verifiers that a run may choose; empty if nothing is known of that.
        unmeasured: The first problems that have no quality.
    """

    problems: int
    measured: int
    known: Mapping[str, int]
    weakest: Mapping[str, int]
    mean: float | None
    least: float | None
    least_of: str | None
    perfect: int
    idle: int
    unsolvable: int
    flaky: int
    cheated: int
    earning: int = 0
    stopped: Mapping[str, int] = field(default_factory=dict)
    under: Mapping[str, float] = field(default_factory=dict)
    unmeasured: tuple[str, ...] = ()

    @classmethod
    def of(cls, cards: Iterable[Card], names: Sequence[str] | None = None) -> CardSet:
        """The card of a set.

        Args:
            cards: A card of each problem that has one.
            names: The `task_id`s of all problems of the set; None if all of them have a card.
        """
        cards = [*cards]
        measured = [(quality, each) for each in cards if (quality := each.quality) is not None]
        worst = min(measured, key=lambda pair: pair[0], default=None)
        have = {each.task_id for _, each in measured}
        names = [each.task_id for each in cards] if names is None else names
        cheats = [cheat for each in cards for cheat in each.cheats]
        stopped = Counter(setting for cheat in cheats for setting in cheat.stopped_by)
        return cls(
            problems=len(names),
            measured=len(measured),
            known={part: sum(each.parts[part] is not None for each in cards) for part in PARTS},
            weakest=dict(Counter(each.weakest or "" for quality, each in measured if quality < 1).most_common()),
            mean=sum(quality for quality, _ in measured) / len(measured) if measured else None,
            least=None if worst is None else worst[0],
            least_of=None if worst is None else worst[1].task_id,
            perfect=sum(quality == 1 for quality, _ in measured),
            idle=_less_than_one("nop", cards),
            unsolvable=_less_than_one("oracle", cards),
            flaky=_less_than_one("flake", cards),
            cheated=_less_than_one("cheats", cards),
            earning=len(cheats),
            stopped=dict(stopped.most_common()),
            under=_means_under([each for _, each in measured]),
            unmeasured=tuple([name for name in names if name not in have][:_SHOWN]),
        )

    @property
    def unknown(self) -> dict[str, int]:
        """How many problems lack each part, by its name; only parts that some lack."""
        return {part: missing for part in PARTS if (missing := self.problems - self.known[part])}

    def document(self) -> dict[str, Any]:
        """The same as plain data."""
        return {**asdict(self), "unknown": self.unknown, "unmeasured": list(self.unmeasured)}


_SHOWN = 10


def _means_under(cards: Sequence[Card]) -> dict[str, float]:
    # Of what was measured under a setting, nothing follows for another one.
    if any(each.verifier != VerifierPlace.TASK for each in cards) or not any(
        each.quality_under for each in cards if each.cheats
    ):
        return {}
    found = {}
    for place in _RUN_PLACES:
        known = [quality for each in cards if (quality := each.under(place).quality) is not None]
        if known:
            found[place.value] = sum(known) / len(known)
    return found


def _less_than_one(part: str, cards: Iterable[Card]) -> int:
    return sum((value := each.parts[part]) is not None and value < 1 for each in cards)


def _key(digest: str, verifier: str) -> str:
    return digest if verifier == VerifierPlace.TASK else f"{digest}@{verifier}"


def _joined(before: Card, later: Card) -> Card:
    taken: dict[str, object] = {"task_id": later.task_id, "kind": later.kind, "measured_at": later.measured_at}
    taken["oracle_under"] = before.oracle_under | later.oracle_under
    for runs, names in _MEASURED_TOGETHER:
        if runs(later) and runs(later) >= runs(before):
            taken |= {name: getattr(later, name) for name in names}
    if (later.cheats_tried or 0) < (before.cheats_tried or 0):
        found = {each.name for each in later.cheats}
        taken["cheats"] = (*(each for each in before.cheats if each.name not in found), *later.cheats)
    for name in _MEASURED_ALONE:
        if (value := getattr(later, name)) not in (None, {}):
            taken[name] = value
    return before.model_copy(update=taken)


# What was measured together, and on how many runs.
_MEASURED_TOGETHER: tuple[tuple[Callable[[Card], int], tuple[str, ...]], ...] = (
    (lambda card: card.oracle_runs, ("oracle", "oracle_runs", "oracle_passes")),
    (lambda card: max(card.nop_runs, card.nop is not None), ("nop", "nop_runs", "stubs")),
    (lambda card: card.flake_runs, ("flake_rate", "flake_low", "flake_high", "flake_runs")),
    (lambda card: card.oracle_runs + card.nop_runs + card.null_runs, ("null_runs", "null_reason")),
    (lambda card: 1 + (card.oracle_runs or card.nop_runs) if card.seconds else 0, ("seconds",)),
    (lambda card: card.cheats_tried or 0, ("cheats_tried", "cheats_unscored", "cheats_left_out", "cheats")),
    (lambda card: 0 if card.mutants is None else 1 + len(card.mutants), ("mutants",)),
)
_MEASURED_ALONE = ("image_bytes", "state_bytes", "network", "reached")


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 1.0
