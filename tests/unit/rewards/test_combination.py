"""Several reward functions as one."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from typing import Any

import pytest

import sandrl
from sandrl.errors import InfrastructureError, UsageError


def lengths(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float | None]:
    return [float(len(text)) for text in completions]


def known(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float | None]:
    return [None if text == "lost" else 1.0 for text in completions]


async def judged(
    prompts: Sequence[str], completions: Sequence[str], task_id: Sequence[str], **columns: Any
) -> list[float | None]:
    await asyncio.sleep(0)
    return [float("nan") if name == "?" else 10.0 for name in task_id]


def broken(prompts: Sequence[str], completions: Sequence[str], **columns: Any) -> list[float | None]:
    raise LookupError("no such row")


def test_the_sum_has_weights_and_none_wherever_any_function_has_none() -> None:
    both = sandrl.combined_rewards((lengths, 0.5), known)
    assert both(["p"] * 3, ["ab", "lost", "abcd"]) == [2.0, None, 3.0]


def test_coroutine_functions_are_awaited_and_their_nan_is_none() -> None:
    both = sandrl.combined_rewards(known, (judged, -0.1))
    for _ in range(2):
        assert both(["p"] * 3, ["a", "b", "lost"], task_id=["x", "?", "x"]) == [0.0, None, None]
    assert asyncio.run(both.as_async()(["p"], ["a"], task_id=["x"])) == [0.0]


def test_a_combination_can_be_combined_and_pickled_again() -> None:
    inner = sandrl.combined_rewards(known, lengths, name="style")
    outer = pickle.loads(pickle.dumps(sandrl.combined_rewards((inner, 2.0), known)))
    assert outer(["p"] * 2, ["ab", "lost"]) == [7.0, None]
    assert inner.__name__ == "style"


def test_the_trainer_is_told_the_mean_of_each_function() -> None:
    told: dict[str, float] = {}
    both = sandrl.combined_rewards((lengths, 0.5), known, known)
    both(["p"] * 2, ["ab", "lost"], log_metric=told.__setitem__)
    assert told == {"sandrl/component/lengths": 3.0, "sandrl/component/known": 1.0, "sandrl/component/known_3": 1.0}


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ((), "needs at least one reward function"),
        (
            (lengths, 0.5),
            "component 1 of the rewards must be a function or a pair of a function and its weight, not 0.5",
        ),
        (((lengths, "much"),), "the weight of component 0 of the rewards must be a number, not 'much'"),
        (((lengths, float("inf")),), "the weight of component 0 of the rewards"),
    ],
)
def test_what_cannot_be_combined_is_refused(functions: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sandrl.combined_rewards(*functions)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (broken, r"the component .*broken raised LookupError: no such row \(test_combination.py, line"),
        (lambda **_: [1.0], "returned 1 rewards for 2 completions"),
        (lambda **_: 1.0, "must return a list of numbers or None, not 1.0"),
        (lambda **_: [1.0, float("inf")], "returned an infinite reward"),
    ],
)
def test_a_function_that_gives_no_rewards_is_named(function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sandrl.combined_rewards(function)(["p"] * 2, ["a", "b"])


def test_an_error_of_sandrl_stays_what_it_is() -> None:
    def fails(**_: Any) -> list[float | None]:
        raise InfrastructureError("no sandbox")

    with pytest.raises(InfrastructureError, match="no sandbox"):
        sandrl.combined_rewards(fails)(["p"], ["a"])


def test_a_lambda_cannot_be_pickled_and_the_message_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"cannot be pickled, because a component cannot: .*<lambda>") as caught:
        pickle.dumps(sandrl.combined_rewards(lambda **_: [1.0]))
    assert caught.value.hint == "define it at the top level of a module, and pass its name"
    with pytest.raises(UsageError, match=r"because `reward` cannot: .*<lambda>"):
        pickle.dumps(
            sandrl.reward_function([{"task_id": "t", "prompt": "p", "tests": ["assert f()"]}], reward=lambda v, c: 1.0)
        )
