"""Rows that make an evaluation set divisible among processes, without being part of the evaluation.

Processes that evaluate together need batches of equal size, otherwise they wait for each other indefinitely. Accelerate
fills the last batches with rows from the beginning, which would be judged and counted twice. Here the dataset itself is
filled with marked rows, and these get no reward.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sandrl.rewards.trainer_batch import Text

PADDING_COLUMN = "is_padding"
"""The column of the dataset that marks such rows."""


def evaluation_batch(problems: int, answers: int, *, processes: int, most: int) -> int:
    """How many completions a process evaluates at once: whole groups, in as few equal batches as possible.

    Args:
        problems: How many there are to evaluate on.
        answers: Completions of each.
        processes: How many processes share them.
        most: How many completions a process may have at once, if that is enough for a group.
    """
    whole = answers // math.gcd(answers, processes)
    most = max(most // whole, 1) * whole
    batches = max(math.ceil(problems * answers / (processes * most)), 1)
    return max(math.ceil(problems * answers / (processes * batches * whole)), 1) * whole


def missing_problems(problems: int, answers: int, *, processes: int, batch: int) -> int:
    """How many rows a dataset of problems lacks for batches of equal size in all processes."""
    if processes == 1:
        return 0
    batches = math.ceil(problems * answers / (processes * batch))
    return batches * processes * batch // answers - problems


class WithoutPadding:
    """A reward function that is asked about real rows only.

    Args:
        reward: Answers for these.
    """

    def __init__(self, reward: Callable[..., Awaitable[list[float | None]]], name: str) -> None:
        # TRL names its metrics after it.
        self.__name__ = name
        self._reward = reward

    async def __call__(
        self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any
    ) -> list[float | None]:
        """Rewards in the order of the rows; None for padding."""
        is_padding = columns.pop(PADDING_COLUMN)
        kept = [place for place, padded in enumerate(is_padding) if not padded]
        if len(kept) == len(is_padding):
            return await self._reward(prompts, completions, **columns)
        for padded, environment in zip(is_padding, columns.get("environments") or (), strict=False):
            if padded:
                environment.toolbox.close()

        def chosen(values: Any) -> Any:
            return [values[place] for place in kept] if isinstance(values, list) else values

        columns = {name: chosen(values) for name, values in columns.items()}
        # Also where no row is left: the calls of all processes are counted alike.
        found = await self._reward(chosen(prompts), chosen(completions), **columns)
        rewards: list[float | None] = [None] * len(is_padding)
        for place, reward in zip(kept, found, strict=True):
            rewards[place] = reward
        return rewards
