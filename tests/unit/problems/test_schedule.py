"""The order in which a training takes its problems."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.config.difficulty import Range
from sandrl.config.words import Curriculum
from sandrl.problems.schedule import Part, Schedule, ScheduleState

NAMES = [f"p{number}" for number in range(10)]
EASY, HARD = Curriculum.EASY_FIRST, Curriculum.HARD_FIRST


def rates_of(names: list[str]) -> dict[str, float]:
    """A pass rate for each name: the number in it, in tenths."""
    return {name: int(name[1:]) / 10 for name in names}


def test_each_pass_takes_every_problem_once_in_an_order_of_its_own() -> None:
    schedule = Schedule([Part(NAMES)], seed=3)
    passes = [schedule.take(10) for _ in range(3)]
    assert all(sorted(names) == NAMES for names in passes)
    assert len({tuple(names) for names in passes}) == 3
    assert Schedule([Part(NAMES)], seed=3).take(10) == passes[0]
    assert Schedule([Part(NAMES)], seed=4).take(10) != passes[0]


def test_without_a_seed_the_order_is_that_of_the_source() -> None:
    schedule = Schedule([Part(NAMES)])
    assert [schedule.take(4) for _ in range(3)] == [NAMES[:4], NAMES[4:8], [*NAMES[8:], *NAMES[:2]]]


def test_no_step_has_a_problem_twice_where_a_pass_ends_in_it() -> None:
    schedule = Schedule([Part(NAMES)], seed=0)
    steps = [schedule.take(7) for _ in range(50)]
    assert all(len(set(names)) == 7 for names in steps)
    taken = [name for names in steps for name in names]
    assert {taken.count(name) for name in NAMES} == {35}


def test_other_problems_are_found_as_long_as_there_are_any() -> None:
    schedule = Schedule([Part(NAMES)], seed=0)
    step = schedule.take(6)
    further = schedule.take(10, besides=step)
    assert sorted([*step, *further]) == NAMES
    assert schedule.take(1, besides=NAMES) == []
    assert len(Schedule([Part(NAMES)]).take(99)) == 10


@pytest.mark.parametrize("weights", [(2.0, 1.0), (1.0, 1.0), (0.7, 0.2, 0.1), (1e-3, 5.0)])
def test_each_source_has_its_share_in_every_stretch_of_a_mixture(weights: tuple[float, ...]) -> None:
    parts = [Part([f"{at}-{name}" for name in NAMES], weight) for at, weight in enumerate(weights)]
    schedule = Schedule(parts, seed=1)
    taken = [name for _ in range(120) for name in schedule.take(1)]
    for at, weight in enumerate(weights):
        for end in range(1, 120):
            count = sum(name.startswith(f"{at}-") for name in taken[:end])
            assert abs(count - end * weight / sum(weights)) <= 1.0


def test_a_source_that_is_too_small_for_its_share_leaves_the_rest_of_a_step_to_others() -> None:
    schedule = Schedule([Part(["small"], 3.0), Part(NAMES, 1.0)])
    for _ in range(5):
        step = schedule.take(4)
        assert len(set(step)) == 4
        assert "small" in step


@pytest.mark.parametrize(("curriculum", "order"), [(EASY, reversed(NAMES)), (HARD, NAMES)])
def test_a_curriculum_orders_each_pass_by_pass_rates(curriculum: Curriculum, order: Any) -> None:
    expected = list(order)
    schedule = Schedule([Part(NAMES)], seed=0, curriculum=curriculum, rates=rates_of(NAMES))
    assert [schedule.take(10), schedule.take(10)] == [expected, expected]


def test_a_problem_without_a_rate_counts_as_half_solved() -> None:
    schedule = Schedule([Part(["p1", "new", "p9"])], curriculum=EASY, rates=rates_of(["p1", "p9"]))
    assert schedule.take(3) == ["p9", "new", "p1"]


def test_less_than_a_pass_has_the_problems_that_it_has_without_a_curriculum() -> None:
    plain = Schedule([Part(NAMES)], seed=5, length=4).take(4)
    ordered = Schedule([Part(NAMES)], seed=5, length=4, curriculum=HARD, rates=rates_of(NAMES))
    assert ordered.take(4) == sorted(plain)
    # A run that was to end here takes the others next.
    assert sorted(ordered.take(6)) == sorted(set(NAMES) - set(plain))


def test_a_run_orders_later_passes_by_what_it_has_measured_itself() -> None:
    schedule = Schedule([Part(["a", "b", "c"])], curriculum=EASY, measures=True)
    passed: dict[str, list[float | None]] = {"a": [0.0, 1.0], "b": [0.0, 0.0], "c": [1.0, None]}
    first = schedule.take(3)
    for name in first:
        schedule.note(name, passed[name])
    assert (first, schedule.take(3)) == (["a", "b", "c"], ["c", "a", "b"])


def test_a_problem_outside_the_range_rests_longer_each_time() -> None:
    schedule = Schedule([Part(["hard", "good", "fair"])], difficulty=Range(0.1, 0.9), measures=True)
    seen = []
    for number in range(24):
        [name] = schedule.take(1)
        schedule.note(name, [float(name != "hard"), 0.0])
        if name == "hard":
            seen.append(number)
    gaps = [after - before for before, after in pairwise(seen)]
    # One pass without it has two problems, and two such passes have four.
    assert gaps[:2] == [5, 7]


def test_a_problem_that_passes_sometimes_again_rests_no_more() -> None:
    schedule = Schedule([Part(["hard", "good"])], difficulty=Range(0.1, 0.9), measures=True)
    taken = []
    for number in range(12):
        [name] = schedule.take(1)
        taken.append(name)
        schedule.note(name, [float(name == "good" or number > 0), 0.0])
    assert taken == ["hard", "good", "good", *["hard", "good"] * 4, "hard"]


def test_resting_problems_come_back_where_a_step_needs_them() -> None:
    schedule = Schedule([Part(NAMES)], difficulty=Range(0.1, 0.9), measures=True)
    for _ in range(6):
        step = schedule.take(8)
        assert len(set(step)) == 8
        for name in step:
            schedule.note(name, [0.0])


def test_a_problem_without_any_reward_keeps_its_rate() -> None:
    schedule = Schedule([Part(["a", "b"])], difficulty=Range(0.1, 0.9), measures=True)
    for name in schedule.take(2):
        schedule.note(name, [None, None])
    assert schedule.take(2) == ["a", "b"]
    schedule.note("nowhere", [0.0])
    assert schedule.take(2) == ["a", "b"]


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    cut=st.integers(0, 11),
    curriculum=st.sampled_from([None, EASY, HARD]),
    measures=st.booleans(),
    weights=st.sampled_from([(1.0,), (2.0, 1.0), (1.0, 3.0, 1.0)]),
    length=st.none() | st.integers(1, 60),
)
def test_a_restored_schedule_goes_on_as_the_one_that_was_stored(
    counts: list[int],
    cut: int,
    curriculum: Curriculum | None,
    measures: bool,
    weights: tuple[float, ...],
    length: int | None,
) -> None:
    def new(length: int | None) -> Schedule:
        return Schedule(
            [Part([f"{at}{name}" for name in NAMES[: 4 + at]], weight) for at, weight in enumerate(weights)],
            seed=7,
            curriculum=curriculum,
            rates={"0p1": 0.2, "1p2": 0.9},
            difficulty=Range(0.2, 0.8) if measures else None,
            measures=measures,
            length=length,
        )

    def go_on(schedule: Schedule, counts: list[int]) -> list[list[str]]:
        steps = []
        for count in counts:
            step = schedule.take(count)
            steps.append([*step, *schedule.take(1, besides=step)])
            for name in steps[-1]:
                schedule.note(name, [float(len(name + str(count)) % 2), float(int(name[-1]) % 3 > 0)])
        return steps

    schedule = new(length)
    go_on(schedule, counts[:cut])
    stored = schedule.state.model_dump_json()
    resumed = new(None if length is None else 2 * length)
    resumed.restore(ScheduleState.model_validate_json(stored))
    assert go_on(resumed, counts[cut:]) == go_on(schedule, counts[cut:])
    assert resumed.state == schedule.state


def test_a_schedule_of_many_problems_has_a_small_state() -> None:
    names = [f"problem-{number}" for number in range(100_000)]
    schedule = Schedule([Part(names)], seed=0, curriculum=EASY, rates=dict.fromkeys(names, 0.5))
    for _ in range(1_000):
        schedule.take(64)
    assert len(schedule.state.model_dump_json()) < 1_000


@pytest.mark.parametrize("text", ["0.1", "0.9..0.1", "a..b", "0.1..1.5", "nan..1", "-1..1", "..inf", ""])
def test_what_is_no_range_of_pass_rates_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a range of pass rates such as 0\.1\.\.0\.9"):
        Range.of(text)


def test_a_range_includes_its_ends() -> None:
    assert [rate in Range.of("0.25..0.75") for rate in (0.2, 0.25, 0.5, 0.75, 0.8)] == [False, True, True, True, False]
    assert [rate in Range.of("..") for rate in (0.0, 1.0)] == [True, True]
