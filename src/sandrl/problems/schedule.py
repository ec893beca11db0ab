"""The order in which a training takes its problems, and what is known of them so far.

Engines take the problems of each step from here, and note what became of their completions. The state is a value that
can be stored, so a resumed run continues at the same problem. An order is a function of the seed, the pass and the pass
rates that were known when the pass began, so neither the number of processes nor the time of an answer changes it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from sandrl.config.difficulty import Range
from sandrl.config.words import Curriculum

THIS = "this"
"""The profile that a run makes itself."""

UNMEASURED = 0.5
"""The pass rate that orders a problem without one."""

_LONGEST_REST = 8


@dataclass(frozen=True, slots=True)
class Part:
    """The problems of one source, by name, and the weight of the source in a mixture."""

    names: Sequence[str]
    weight: float = 1.0
    source: str = ""


def counts_of(parts: Sequence[Part]) -> str:
    """How many problems each source of a mixture has, as the end of a line; empty for one source."""
    counts = ", ".join(f"{len(part.names)} of {part.source}" for part in parts)
    return f" ({counts})" if len(parts) > 1 else ""


class PartState(BaseModel):
    """What a schedule has done with one source.

    Attributes:
        taken: How many problems it took.
        passes: How many passes it finished.
        place: How many problems of the current pass it took, or put off.
        waiting: The problems that were put off: their step had them already.
        rates: The pass rates that order the current pass; empty unless the run measures them.
        fresh: Those measured since the pass began.
        rests: Of each problem outside the range of difficulty, the pass in which it is taken again, and how often in
            a row it was outside.
    """

    model_config = ConfigDict(frozen=True)

    taken: int = 0
    passes: int = 0
    place: int = 0
    waiting: tuple[str, ...] = ()
    rates: dict[str, float] = {}
    fresh: dict[str, float] = {}
    rests: dict[str, tuple[int, int]] = {}


class ScheduleState(BaseModel):
    """What a schedule has done so far; `length` is how many problems it was to take when the run began."""

    model_config = ConfigDict(frozen=True)

    parts: tuple[PartState, ...] = ()
    length: int | None = None


class Schedule:
    """An endless order of problems: a permutation for each pass through a source, or its own order without a seed.

    Of several sources, each is taken from as often as its weight says, as evenly as possible. A curriculum orders each
    pass by pass rates, those of a profile or, with `measures`, those that the run itself has measured by the beginning
    of the pass. A run that takes less than one pass takes the problems that it would have taken without a curriculum,
    in its order. With `measures`, a problem outside the range of difficulty rests for one pass, and for twice as many
    (up to 8) each time that it is outside again.

    Args:
        parts: The sources; all names differ.
        rates: The pass rates of a profile, from 0 to 1, by name.
        length: How many problems the whole run takes, as far as is known.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        seed: int | None = None,
        curriculum: Curriculum | None = None,
        rates: Mapping[str, float] | None = None,
        difficulty: Range | None = None,
        measures: bool = False,
        length: int | None = None,
    ) -> None:
        self._length = length
        self._measures = measures
        total = sum(part.weight for part in parts)
        self._shares = [part.weight / total for part in parts]
        self._sources = [
            _Source(part.names, f"{seed} {place}" if place else f"{seed}", seed is not None, curriculum, difficulty)
            for place, part in enumerate(parts)
        ]
        for source in self._sources:
            source.rates = rates or {}
        self._given = rates or {}

    @property
    def state(self) -> ScheduleState:
        return ScheduleState(parts=tuple(map(self._state_of, self._sources)), length=self._length)

    def restore(self, state: ScheduleState) -> None:
        """Continues from a state of a schedule of the same problems."""
        self._length = state.length
        for source, kept in zip(self._sources, state.parts, strict=True):
            source.taken, source.passes, source.place = kept.taken, kept.passes, kept.place
            source.waiting, source.order = list(kept.waiting), None
            source.rates = dict(kept.rates) if self._measures else self._given
            source.fresh, source.rests = dict(kept.fresh), dict(kept.rests)

    def take(self, count: int, *, besides: Collection[str] = ()) -> list[str]:
        """The names of the next problems, all different and none of `besides`; fewer, if there are no others."""
        barred, names = set(besides), list[str]()
        while len(names) < count:
            name = next((name for source in self._by_need() if (name := source.take(barred)) is not None), None)
            if name is None:
                break
            barred.add(name)
            names.append(name)
        return names

    def note(self, task_id: str, passed: Sequence[float | None]) -> None:
        """Learns which completions of a problem passed (1.0, else 0.0); None stands for one without a reward."""
        known = [each for each in passed if each is not None]
        if self._measures and known:
            for source in self._sources:
                source.note(task_id, sum(known) / len(known))

    def _by_need(self) -> list[_Source]:
        # Those that are furthest behind their shares first.
        total = sum(source.taken for source in self._sources) + 1
        pairs = list(zip(self._shares, self._sources, strict=True))
        for share, source in pairs:
            source.length = None if self._length is None else max(round(self._length * share), 1)
        return [source for _, source in sorted(pairs, key=lambda pair: pair[1].taken - pair[0] * total)]

    def _state_of(self, source: _Source) -> PartState:
        return PartState(
            taken=source.taken,
            passes=source.passes,
            place=source.place,
            waiting=tuple(source.waiting),
            rates=dict(source.rates) if self._measures else {},
            fresh=dict(source.fresh),
            rests=dict(source.rests),
        )


@dataclass(slots=True)
class _Source:
    names: Sequence[str]
    seed: str
    is_shuffled: bool
    curriculum: Curriculum | None
    difficulty: Range | None
    length: int | None = None
    taken: int = 0
    passes: int = 0
    place: int = 0
    waiting: list[str] = field(default_factory=list)
    rates: Mapping[str, float] = field(default_factory=dict)
    fresh: dict[str, float] = field(default_factory=dict)
    rests: dict[str, tuple[int, int]] = field(default_factory=dict)
    # That of the current pass, when it is known.
    order: list[str] | None = None
    known: frozenset[str] = frozenset()

    def take(self, barred: Collection[str]) -> str | None:
        name = next((name for name in self.waiting if name not in barred), None)
        if name is not None:
            self.waiting.remove(name)
        elif len(barred) < len(self.names) or any(each not in barred for each in self.names):
            name = self._search(barred)
        self.taken += name is not None
        return name

    def _search(self, barred: Collection[str]) -> str:
        # What is left of this pass, and the whole next one.
        for _ in range(2 * len(self.names)):
            name = self._advance()
            if name not in barred:
                return name
            if name not in self.waiting:
                self.waiting.append(name)
        # All others rest: the one that was to be taken next comes back early.
        others = (name for name in self.names if name not in barred)
        return min(others, key=lambda name: self.rests.get(name, (0, 0))[0])

    def note(self, name: str, rate: float) -> None:
        if not self.known:
            self.known = frozenset(self.names)
        if name in self.known:
            self.fresh[name] = rate

    def _advance(self) -> str:
        if self.order is None:
            self.order = self._pass()
        if self.place >= len(self.order):
            self.passes += 1
            self.place = 0
            self._learn()
            self.order = self._pass()
        self.place += 1
        return self.order[self.place - 1]

    def _learn(self) -> None:
        if not self.fresh:
            return
        self.rates = {**self.rates, **self.fresh}
        for name, rate in self.fresh.items() if self.difficulty is not None else ():
            if self.difficulty is None or rate in self.difficulty:
                self.rests.pop(name, None)
            else:
                times = self.rests.get(name, (0, 0))[1] + 1
                self.rests[name] = (self.passes + min(2 ** (times - 1), _LONGEST_REST), times)
        self.fresh = {}

    def _pass(self) -> list[str]:
        names = list(self.names)
        if self.is_shuffled:
            names = random.Random(f"{self.seed} {self.passes}").sample(names, len(names))
        names = [name for name in names if self.rests.get(name, (0, 0))[0] <= self.passes] or names
        if self.curriculum is None:
            return names
        size = min(self.length or len(names), len(names))
        is_reversed = self.curriculum is Curriculum.EASY_FIRST
        blocks = (names[begin : begin + size] for begin in range(0, len(names), size))
        return list(
            chain.from_iterable(
                sorted(block, key=lambda name: self.rates.get(name, UNMEASURED), reverse=is_reversed)
                for block in blocks
            )
        )


class _Configuration(Protocol):
    @property
    def steps(self) -> int: ...

    @property
    def groups(self) -> int: ...

    @property
    def dynamic_sampling(self) -> int: ...

    @property
    def profile(self) -> str | None: ...

    @property
    def difficulty(self) -> str | None: ...

    @property
    def curriculum(self) -> Curriculum | None: ...


def schedule_of(
    config: _Configuration,
    parts: Sequence[Part],
    *,
    rates: Mapping[str, float] | None = None,
    seed: int | None = None,
    length: int | None = None,
) -> Schedule:
    """The schedule that a configuration asks for; the arguments are those of `Schedule`."""
    return Schedule(
        parts,
        seed=seed,
        curriculum=config.curriculum,
        rates=rates,
        difficulty=None if config.difficulty is None else Range.of(config.difficulty),
        measures=config.profile == THIS,
        length=length,
    )


def has_own_order(config: _Configuration, parts: Sequence[Part]) -> bool:
    """Whether a configuration needs another order than that of a trainer: a filter by a profile needs none."""
    return len(parts) > 1 or config.curriculum is not None or config.profile == THIS


def too_short_note(config: _Configuration, parts: Sequence[Part]) -> str:
    """Why a run that is to measure its own pass rates cannot use them, in one line; empty if it can."""
    most = config.steps * config.groups * (1 + config.dynamic_sampling)
    problems = sum(len(part.names) for part in parts)
    if config.profile != THIS or most > problems:
        return ""
    return f"profile {THIS} has no effect: the run takes {most} problems, and the first pass has {problems}"
