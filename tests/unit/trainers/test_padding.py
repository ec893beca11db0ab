from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from sandrl.trainers.batches import evaluation_batch, missing_problems
from sandrl.trainers.rewarding import PADDING_COLUMN, WithoutPadding


def test_batches_are_equal_whole_groups_and_hardly_padded() -> None:
    for problems, answers, processes, most in itertools.product((1, 4, 5, 128), (1, 3, 4), (1, 2, 3), (1, 16, 64)):
        batch = evaluation_batch(problems, answers, processes=processes, most=most)
        assert processes * batch % answers == 0
        assert batch <= max(most, answers)
        missing = missing_problems(problems, answers, processes=processes, batch=batch)
        if processes > 1:
            assert (problems + missing) * answers % (processes * batch) == 0
        batches = -(-problems * answers // (processes * batch))
        assert 0 <= missing < batches * processes


@pytest.mark.parametrize(("problems", "missing"), [(4, 0), (5, 1)])
def test_two_processes_share_what_they_evaluate(problems: int, missing: int) -> None:
    batch = evaluation_batch(problems, 1, processes=2, most=16)
    assert batch == (problems + missing) // 2
    assert missing_problems(problems, 1, processes=2, batch=batch) == missing


def test_a_row_of_padding_is_not_judged() -> None:
    asked = []

    async def reward(prompts: list[str], completions: list[str], **columns: Any) -> list[float | None]:
        asked.append((prompts, completions, columns))
        return [float(len(completion)) for completion in completions]

    columns = {"task_id": ["a", "b", "c"], "trainer_state": "state", PADDING_COLUMN: [False, True, False]}
    without = WithoutPadding(reward, "mine")
    assert asyncio.run(without(["p", "q", "r"], ["x", "yy", "zzz"], **columns)) == [1.0, None, 3.0]
    assert asked == [(["p", "r"], ["x", "zzz"], {"task_id": ["a", "c"], "trainer_state": "state"})]
    assert asyncio.run(without(["q"], ["yy"], task_id=["b"], **{PADDING_COLUMN: [True]})) == [None]
    assert without.__name__ == "mine"
