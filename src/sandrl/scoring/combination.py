"""Combines several reward functions of a trainer into one, which returns None if any of them does.

The sum is computed here and not by the trainer. TRL adds the rewards of several functions as if a None were 0, so a
completion whose sandbox failed would get the reward of a wrong answer. A trainer with one function masks such a
completion.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeAlias

from sandrl.bounds import LARGEST_WEIGHT, check_weight
from sandrl.errors import SandrlError, UsageError
from sandrl.scoring.user_functions import check_picklable, name_of, reason_of

Rewards: TypeAlias = "Sequence[float | None]"
TrainerReward: TypeAlias = "Callable[..., Rewards | Awaitable[Rewards]]"
"""`f(prompts, completions, **columns)`, plain or a coroutine function: a number or None for each completion."""

AsyncRewardFunction: TypeAlias = Callable[..., Coroutine[Any, Any, list[float | None]]]


def combined_rewards(
    *functions: TrainerReward | tuple[TrainerReward, float], name: str = "combined_rewards"
) -> CombinedRewards:
    """Combines several reward functions into one: their weighted sum, or `None` if any of them returns `None`.

    Args:
        functions: Reward functions in TRL's shape, plain or coroutine functions, each alone or as a pair
            `(function, weight)`. The weight is 1.0 if it is left out.
        name: The name of the sum in a trainer's metrics.

    Returns:
        One reward function in TRL's shape.

    Raises:
        UsageError: If no function is given, one cannot be called, or a weight is not a number.
    """
    return CombinedRewards(functions, name=name)


class CombinedRewards:
    """The weighted sum of reward functions; `None` for a completion if any of them returns `None` for it."""

    def __init__(
        self, functions: Iterable[TrainerReward | tuple[TrainerReward, float]], *, name: str = "combined_rewards"
    ) -> None:
        # Trainers name their columns after it.
        self.__name__ = name
        self._parts = [_part(number, each) for number, each in enumerate(functions)]
        if not self._parts:
            raise UsageError("combined_rewards needs at least one reward function")
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        # One loop for all batches: clients that coroutine functions keep belong to the loop that they began in.
        self._runner: asyncio.Runner | None = None

    def __getstate__(self) -> dict[str, Any]:
        for function, _ in self._parts:
            check_picklable("a component", function)
        return {"name": self.__name__, "parts": self._parts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__name__, self._parts = state["name"], state["parts"]
        self._begin()

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Scores a batch of N rows.

        Args:
            columns: The other arguments of the trainer, passed to every function. `log_metric` (TRL) is called with the
                mean of each function before its weight.

        Returns:
            N weighted sums; `None` if any function returned `None` for the completion.

        Raises:
            UsageError: If a function raises, or does not return N numbers.
        """
        found = [self._ask(function, prompts, completions, columns) for function, _ in self._parts]
        if any(inspect.isawaitable(each) for each in found):
            found = self._run(_all(found))
        return self._sum(found, len(completions), columns)

    def as_async(self) -> AsyncRewardFunction:
        """Returns a coroutine function for it: plain functions run in threads, others on the caller's loop."""

        async def combined(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
            return await self.scored(prompts, completions, columns)

        combined.__name__ = self.__name__
        return combined

    async def scored(
        self, prompts: Sequence[Any], completions: Sequence[Any], columns: dict[str, Any]
    ) -> list[float | None]:
        async def ask(function: TrainerReward) -> Any:
            found = await asyncio.to_thread(self._ask, function, prompts, completions, columns)
            return await found if inspect.isawaitable(found) else found

        found = await asyncio.gather(*(ask(function) for function, _ in self._parts))
        return self._sum(list(found), len(completions), columns)

    def _ask(self, function: TrainerReward, prompts: Any, completions: Any, columns: dict[str, Any]) -> Any:
        # A coroutine of one raises the same errors when it is awaited.
        try:
            given = function(prompts=prompts, completions=completions, **columns)
        except Exception as error:
            raise _explained(function, error) from error
        return _awaited(function, given) if inspect.isawaitable(given) else given

    def _run(self, all_found: Awaitable[list[Any]]) -> list[Any]:
        async def wait() -> list[Any]:
            return await all_found

        with self._lock:
            if self._runner is None:
                self._runner = asyncio.Runner()
                weakref.finalize(self, self._runner.close)
            return self._runner.run(wait())

    def _sum(self, found: Sequence[Any], count: int, columns: dict[str, Any]) -> list[float | None]:
        names, log_metric = self._names(), columns.get("log_metric")
        sums: list[float | None] = [0.0] * count
        for (function, weight), name, given in zip(self._parts, names, found, strict=True):
            rewards = _checked(function, given, count)
            known = [reward for reward in rewards if reward is not None]
            if known and callable(log_metric):
                log_metric(f"sandrl/component/{name}", math.fsum(known) / len(known))
            sums = [
                None if before is None or reward is None else before + weight * reward
                for before, reward in zip(sums, rewards, strict=True)
            ]
        return sums

    def _names(self) -> list[str]:
        names: list[str] = []
        for function, _ in self._parts:
            name = getattr(function, "__name__", type(function).__name__)
            names.append(name if name not in names else f"{name}_{len(names) + 1}")
        return names


def add_rewards(first: Rewards, second: Rewards) -> list[float | None]:
    return [None if a is None or b is None else a + b for a, b in zip(first, second, strict=True)]


async def _all(found: Sequence[Any]) -> list[Any]:
    async def result(each: Any) -> Any:
        return await each if inspect.isawaitable(each) else each

    return list(await asyncio.gather(*(result(each) for each in found)))


async def _awaited(function: TrainerReward, given: Awaitable[Any]) -> Any:
    try:
        return await given
    except Exception as error:
        raise _explained(function, error) from error


def _explained(function: TrainerReward, error: Exception) -> SandrlError:
    if isinstance(error, SandrlError):
        return error
    return UsageError(f"the component {name_of(function)} raised {reason_of(error)}")


def _part(number: int, given: Any) -> tuple[TrainerReward, float]:
    function, weight = given if isinstance(given, tuple) and len(given) == 2 else (given, 1.0)
    what = f"component {number} of the rewards"
    if not callable(function):
        message = f"{what} must be a function or a pair of a function and its weight, not {given!r:.60}"
        raise UsageError(
            message,
            hint="pass a function f(prompts, completions, **columns) that returns a list of numbers, or (f, 0.5)",
        )
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise UsageError(f"the weight of {what} must be a number, not {weight!r:.60}")
    check_weight(f"the weight of {what}", float(weight), least=-LARGEST_WEIGHT)
    return function, float(weight)


def _checked(function: TrainerReward, given: Any, count: int) -> list[float | None]:
    what = f"the component {name_of(function)}"
    try:
        rewards = [None if each is None or math.isnan(each) else float(each) for each in given]
    except (TypeError, ValueError):
        raise UsageError(f"{what} must return a list of numbers or None, not {given!r:.60}") from None
    if len(rewards) != count:
        raise UsageError(f"{what} returned {len(rewards)} rewards for {count} completions")
    if any(reward is not None and math.isinf(reward) for reward in rewards):
        raise UsageError(f"{what} returned an infinite reward")
    return rewards
