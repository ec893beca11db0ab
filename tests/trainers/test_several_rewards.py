"""Several reward functions in TRL: what becomes of a completion that one of them cannot score."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import sandrl
from sandrl.problems import chat_prompt, load_problems
from sandrl.rewards import RewardFunction
from tests.trainers.conftest import take_trl_step

GROUP = 4

# Those of libraries are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


def short(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """Numbers that differ, so that rewards do."""
    return [0.1 * number for number in range(len(completions))]


def first_is_lost(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
    return [None, *[0.0] * (len(completions) - 1)]


@pytest.fixture
def problems() -> Any:
    loaded = load_problems("tiny").problems
    return dict(list(loaded.items())[:1])


@pytest.fixture
def function(problems: Any) -> Iterator[RewardFunction]:
    with sandrl.reward_function(
        problems, components=[first_is_lost, (short, 0.5)], extraction="exact", runtime="local"
    ) as function:
        yield function


def advantages(functions: Any, problems: Any, policy: Path, folder: Path) -> list[float]:
    """The advantages of one group, in a step of TRL's own trainer."""
    import trl

    found: list[float] = []

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            found.extend(output["advantages"].tolist())
            return output

    rows = [{"prompt": chat_prompt(each, show_tests=1), "task_id": each.task_id} for each in problems.values()]
    sizes = {"per_device_train_batch_size": GROUP, "num_generations": GROUP, "max_completion_length": 16}
    take_trl_step(Trainer, functions, rows, policy, folder, **sizes, seed=0)
    return found


@pytest.mark.parametrize("is_combined", [False, True])
def test_one_function_masks_a_completion_that_any_part_cannot_score(
    function: RewardFunction, problems: Any, tiny_directory: Path, tmp_path: Path, is_combined: bool
) -> None:
    one = sandrl.combined_rewards(function, short) if is_combined else function
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="TRL has several")
        found = advantages(one, problems, tiny_directory, tmp_path)
    assert found[0] == 0.0
    assert len(found) == GROUP
    assert all(found[1:])
    assert sum(found) == pytest.approx(0.0, abs=1e-5)


def test_beside_another_function_trl_does_not_mask_and_we_say_so(
    function: RewardFunction, problems: Any, tiny_directory: Path, tmp_path: Path
) -> None:
    with pytest.warns(
        UserWarning, match="TRL has several reward functions, and adds the None of one of them as 0"
    ) as caught:
        found = advantages([function, short], problems, tiny_directory, tmp_path)
    (ours,) = [str(each.message) for each in caught if "adds the None of one of them as 0" in str(each.message)]
    assert "sandrl.combined_rewards" in ours
    assert found[0] != 0.0, "if TRL masks it, the warning is out of date"
