from __future__ import annotations

import itertools

import pytest
from pydantic import JsonValue

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import UsageError
from sandrl.trainers.batches import Division, check_filled, fitted
from sandrl.trainers.config import resolve


def config_of(batch_size: int, **passes: int) -> GrpoConfig:
    return resolve({"batch_size": batch_size, "set": dict(passes)})


@pytest.mark.parametrize(
    ("problems", "processes", "passes", "size"),
    [
        (16, 1, {}, 128),
        (5, 1, {}, 40),
        (3, 1, {"gradient_accumulation_steps": 4}, 24),
        (3, 4, {"gradient_accumulation_steps": 4}, 16),
        # Completions of two steps are generated at once, and need problems for both.
        (5, 1, {"steps_per_generation": 2}, 16),
        # A pass generates once, and accumulates four.
        (1, 1, {"gradient_accumulation_steps": 4, "steps_per_generation": 1}, 32),
    ],
)
def test_the_default_batch_shrinks_to_what_the_problems_fill(
    problems: int, processes: int, passes: dict[str, int], size: int
) -> None:
    config = fitted(config_of(128, **passes), problems, processes=processes)
    assert config.batch_size == size
    check_filled(config, problems, processes=processes)


def test_where_no_batch_fits_the_default_stays_and_is_refused() -> None:
    config = fitted(config_of(128, gradient_accumulation_steps=16), 1, processes=1)
    assert config.batch_size == 128
    with pytest.raises(UsageError, match="batch_size 128 with 8 samples needs 16 problems per batch, and the"):
        check_filled(config, 1, processes=1)


@pytest.mark.parametrize(
    ("batch_size", "problems", "processes", "passes", "hint"),
    [
        (128, 12, 1, {}, "use `batch_size` 96, or `samples` 16"),
        (16, 1, 1, {}, "use `batch_size` 8, or `samples` 16"),
        (32, 1, 4, {"gradient_accumulation_steps": 4}, "use `samples` 32"),
    ],
)
def test_a_batch_that_the_problems_do_not_fill_is_refused_with_what_fits(
    batch_size: int, problems: int, processes: int, passes: dict[str, int], hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_filled(config_of(batch_size, **passes), problems, processes=processes)
    assert caught.value.hint == hint
    for choice in hint.removeprefix("use ").split(", or "):
        name, value = choice.replace("`", "").split()
        given: dict[str, JsonValue] = {"batch_size": batch_size, "set": dict(passes), name: int(value)}
        check_filled(resolve(given), problems, processes=processes)


def test_the_largest_batch_is_possible_and_no_larger_one_is() -> None:
    for samples, processes, accumulation, passes, problems in itertools.product(
        (2, 6), (1, 2, 3), (1, 4), (1, 4), (1, 5)
    ):
        division = Division(samples, processes, accumulation, passes)
        possible = [
            size for size in range(1, 200) if division.is_possible(size) and division.problems(size) <= problems
        ]
        assert division.largest(problems) == max(possible, default=None)


def test_a_division_by_zero_is_named() -> None:
    with pytest.raises(UsageError, match="set gradient_accumulation_steps=0: must be at least 1"):
        Division.of(config_of(128, gradient_accumulation_steps=0), 1)
