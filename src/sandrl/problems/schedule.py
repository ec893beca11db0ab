"""The order in which a training takes its problems, and what is known of them so far.

Engines take the problems of each step from here and tell what their groups earned. The state is a value that can be
stored, so a resumed run continues at the same problem.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict


class ScheduleState(BaseModel):
    """What a schedule has done so far.

    Attributes:
        taken: How many problems were taken.
    """

    model_config = ConfigDict(frozen=True)

    taken: int = 0


class Schedule:
    """An endless order of problems: a permutation for each pass through them, or their own order without a seed."""

    def __init__(self, names: Sequence[str], *, seed: int | None = None) -> None:
        self._names = tuple(names)
        self._seed = seed
        self._state = ScheduleState()

    @property
    def state(self) -> ScheduleState:
        return self._state

    def restore(self, state: ScheduleState) -> None:
        """Continues from a state of a schedule of the same problems."""
        self._state = state

    def take(self, count: int) -> list[str]:
        """The names of the next problems; different ones, where there are as many."""
        first = self._state.taken
        self._state = self._state.model_copy(update={"taken": first + count})
        return [self._name(place) for place in range(first, first + count)]

    def note(self, task_id: str, rewards: Sequence[float | None]) -> None:
        """Tells what the group of a problem earned; None stands for a completion without a reward."""

    def _name(self, place: int) -> str:
        epoch, index = divmod(place, len(self._names))
        if self._seed is None:
            return self._names[index]
        return random.Random(f"{self._seed} {epoch}").sample(self._names, len(self._names))[index]
