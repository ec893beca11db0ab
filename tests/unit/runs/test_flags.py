"""Rules against series; those in capitals were recorded from runs of the tiny policy with 32 completions a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import pytest

from sandrl.events import Event, FlagRaised
from sandrl.runs import MetricsRow
from sandrl.runs.flags import RULES, Flag, Health, courses_of, flags_of
from sandrl.runs.series import series_of

Recorded = Mapping[str, Sequence[float | None]]

# The default run with seed 1: 128 completions a step, 16 groups, 80 steps; every fourth step, and all of the last ten.
HEALTHY: Recorded = {
    "reward/mean": [
        0.492, 0.539, 0.625, 0.773, 0.742, 0.812, 0.75, 0.758, 0.898, 0.906, 0.883, 0.961, 0.945, 0.938, 0.969, 0.961,
        0.961, 0.977, 0.977, 0.93, 0.922, 0.93, 0.961, 0.906, 0.914, 0.914, 0.969, 0.938,
    ],
    "reward/zero_variance_groups": [
        1, 1, 3, 4, 1, 9, 6, 5, 9, 4, 10, 12, 11, 9, 13, 11, 12, 13, 13, 10, 10, 10, 11, 11, 10, 11, 13, 9,
    ],
    "reward/groups": [16.0] * 28,
    "entropy": [
        0.167, 0.169, 0.156, 0.099, 0.086, 0.147, 0.124, 0.138, 0.077, 0.063, 0.068, 0.051, 0.049, 0.047, 0.036, 0.04,
        0.036, 0.044, 0.034, 0.05, 0.065, 0.059, 0.043, 0.064, 0.071, 0.058, 0.033, 0.039,
    ],
    "completions/mean_length": [
        14.19, 14.05, 13.86, 13.48, 13.52, 14.12, 14.23, 14.4, 14.09, 13.99, 13.45, 13.96, 13.97, 13.97, 13.38, 13.65,
        13.77, 14.51, 13.52, 13.9, 13.96, 13.61, 13.64, 13.83, 14.19, 13.87, 13.36, 14.21,
    ],
    "completions/clipped_ratio": [0.0] * 28,
    "loss": [0.0] * 28,
    "held_out/pass@1": [0.422, *[None] * 26, 0.938],
    "unscorable_share": [0.0] * 28,
}  # fmt: skip

# --beta 0.04
HEALTHY_KL = [
    0.0, 0.0, 0.0, 0.001, 0.001, 0.001, 0.005, 0.003, 0.027, 0.016, 0.016, 0.014, 0.015, 0.046, 0.021, 0.035, 0.028,
    0.05, 0.029, 0.049, 0.028, 0.045, 0.026, 0.036, 0.032, 0.067, 0.044, 0.031, 0.209, 0.067,
]  # fmt: skip

# --beta 0.04 --learning-rate 3e-3
DRIFTED_KL = [
    0.0, 0.0, 0.006, 0.009, 0.036, 0.668, 0.097, 0.218, 0.2, 0.17, 0.292, 0.736, 0.718, 1.365, 0.951, 0.71, 0.477,
    0.434, 0.61, 0.745, 3.758, 1.296, 0.337, 1.259, 0.619, 0.583, 0.545, 0.675, 1.987, 1.986,
]  # fmt: skip

# --learning-rate 5e-3: the first 20 steps.
LOST: Recorded = {
    "reward/mean": [0.594, 0.531, 0.469, 0.5, 0.625, 0.188, 0.156, *[0.0] * 13],
    "reward/zero_variance_groups": [0, 0, 0, 1, 1, 1, 2, *[4.0] * 13],
    "reward/groups": [4.0] * 20,
    "entropy": [
        0.172, 0.399, 0.124, 0.124, 0.143, 0.926, 0.447, 0.837, 1.054, 2.089, 4.316, 5.799, 5.816, 5.837, 5.865, 5.918,
        5.923, 5.946, 5.952, 5.967,
    ],
    "completions/mean_length": [
        13.31, 14.94, 13.0, 13.78, 14.44, 21.81, 15.38, 19.97, 13.72, 16.28, 35.91, 45.38, *[48.0] * 8,
    ],
    "completions/clipped_ratio": [0, 0, 0, 0, 0, 0.219, 0.031, 0.094, 0.0, 0.062, 0.562, 0.906, *[1.0] * 8],
    "loss": [0.0] * 20,
}  # fmt: skip

# A reward for short completions, --learning-rate 1e-3 --set entropy_coef=0, 16 completions a step.
SHRUNK: Recorded = {
    "entropy": [
        0.389, 0.123, 0.241, 0.504, 0.142, 0.133, 0.127, 0.165, 0.159, 0.139, 0.519, 0.406, 0.346, 0.22, 0.242, 0.175,
        0.471, 0.139, 0.32, 0.47, 0.209, 0.136, 0.095, 0.321, 0.036, 0.027, 0.025, 0.025, 0.026, 0.027, 0.028, 0.024,
        0.023, 0.022, 0.022, 0.021, 0.021, 0.021, 0.019, 0.019,
    ],
    "completions/mean_length": [
        14.5, 13.12, 14.5, 14.75, 13.75, 13.19, 12.81, 14.44, 14.0, 12.25, 13.06, 13.0, 11.62, 11.5, 5.31, 5.0, 5.56,
        5.0, 7.25, 3.38, 2.12, 2.0, 2.12, 2.31, *[2.0] * 16,
    ],
    "loss": [0.0] * 40,
}  # fmt: skip


def rows_of(series: Recorded) -> tuple[MetricsRow, ...]:
    return tuple(
        MetricsRow(
            job_id="job-1", step=step, metrics={name: each[step] for name, each in series.items() if step < len(each)}
        )
        for step in range(max(map(len, series.values())))
    )


def raised(series: Recorded) -> list[Flag]:
    return list(flags_of(series_of(rows_of(series))))


def names(series: Recorded) -> list[str]:
    return [flag.name for flag in raised(series)]


def live(series: Recorded) -> list[FlagRaised]:
    told: list[Event] = []
    health = Health(emit=told.append)
    for row in rows_of(series):
        health.add(row.step, row.metrics)
    return [event for event in told if isinstance(event, FlagRaised)]


def one(name: str, series: Recorded) -> Flag:
    (flag,) = (flag for flag in raised(series) if flag.name == name)
    return flag


def test_a_healthy_run_raises_no_flag_at_any_step() -> None:
    assert live(HEALTHY) == []
    assert live({"kl": HEALTHY_KL, "loss": [0.0] * 30}) == []
    assert names({"judge/second_opinions": [9.0] * 6, "judge/disagreements": [0.0] * 6}) == []
    assert names({"aviato/max_execs_per_sandbox": [4.0] * 6, "aviato/min_execs_per_sandbox": [1.0] * 6}) == []


def test_a_policy_that_a_high_learning_rate_has_destroyed_raises_each_of_its_flags_once() -> None:
    told = live(LOST)
    assert [(event.step, event.name) for event in told] == [
        (11, "entropy_explosion"), (12, "truncated_completions"), (13, "zero_variance_groups"),
        (14, "reward_collapse"), (15, "length_explosion"),
    ]  # fmt: skip


# The only group of each step has equal rewards.
MOVED: Recorded = {"reward/zero_variance_groups": [1.0] * 6, "reward/groups": [1.0] * 6, "loss": [0.0] * 6}

CASES: tuple[tuple[str, Recorded, int, float, float, tuple[int, int]], ...] = (
    ("runaway_tool_calls", {"aviato/max_execs_per_sandbox": [3, 25]}, 1, 25, 20, (0, 1)),
    ("stuck_loops", {"aviato/max_execs_per_sandbox": [12], "aviato/min_execs_per_sandbox": [1]}, 2, 11, 10, (0, 0)),
    ("many_unscorable", {"unscorable_share": [0.0, 0.4]}, 1, 0.2, 0.05, (0, 1)),
    ("judge_disagrees", {"judge/disagreements": [0, 1], "judge/second_opinions": [5, 5]}, 2, 1, 0, (0, 1)),
    (
        "zero_variance_groups",
        {"reward/groups": [8, 8], "reward/zero_variance_groups": [8, 6], "reward/mean": [1, 0.9]},
        2, 0.875, 0.75, (0, 1),
    ),
    ("moved_without_rewards", {"grad_norm": [0.02] * 6, **MOVED}, 3, 6, 5, (0, 5)),
    ("truncated_completions", {"completions/clipped_ratio": [0.5, 0.4, 0.6], "loss": [0.1]}, 1, 0.5, 0.2, (0, 2)),
    ("truncated_completions", {"completions/clipped_ratio": [0.03]}, 1, 0.03, 0.02, (0, 0)),
    ("entropy_collapse", {"entropy": SHRUNK["entropy"]}, 1, 0.0215, 0.0241, (30, 39)),
    ("entropy_explosion", {"entropy": LOST["entropy"]}, 1, 5.8915, 1.0, (10, 19)),
    (
        "length_collapse",
        {"completions/mean_length": SHRUNK["completions/mean_length"], "loss": [0.0]},
        1, 2, 5.8, (30, 39),
    ),
    (
        "length_explosion",
        {"completions/mean_length": LOST["completions/mean_length"], "loss": [0.0]},
        1, 48, 34.45, (10, 19),
    ),
    (
        "length_collapse",
        {"episodes/completion_tokens": [600] * 5 + [90] * 5, "completions": [10] * 10, "train/gradient_steps": [1]},
        2, 9, 24, (5, 9),
    ),
    ("kl_drift", {"kl": DRIFTED_KL}, 1, 0.967, 0.5, (20, 29)),
    ("kl_drift", {"art/loss/kl_policy_ref": DRIFTED_KL}, 1, 0.967, 0.5, (20, 29)),
    ("reward_collapse", {"reward/mean": LOST["reward/mean"], "loss": LOST["loss"]}, 1, 0.0, 0.05438, (10, 19)),
    (
        "held_out_stays_behind",
        {"reward/mean": [0.1] * 6 + [0.9] * 6, "held_out/pass@1": [0.4, *[None] * 10, 0.3]},
        2, 0.8, 0.1, (0, 11),
    ),
)  # fmt: skip


def test_a_policy_that_is_paid_for_short_completions_raises_the_flags_of_a_collapse() -> None:
    assert [(event.step, event.name) for event in live(SHRUNK)] == [(20, "length_collapse"), (36, "entropy_collapse")]


@pytest.mark.parametrize(("name", "series", "metrics", "value", "threshold", "steps"), CASES)
def test_each_sign_of_trouble_raises_its_flag(
    name: str, series: Recorded, metrics: int, value: float, threshold: float, steps: tuple[int, int]
) -> None:
    (flag,) = raised(series)
    assert flag.name == name
    assert set(flag.metrics) == set(list(series)[:metrics])
    assert flag.value == pytest.approx(value, rel=1e-3)
    assert flag.threshold == pytest.approx(threshold, rel=1e-3)
    assert (flag.first_step, flag.last_step) == steps


def test_a_loss_that_is_no_number_is_flagged_without_a_threshold() -> None:
    flag = one("loss_is_no_number", {"loss": [0.1, math.nan]})
    assert (flag.value, flag.threshold, flag.first_step, flag.last_step) == (None, None, 1, 1)
    assert names({"loss": [math.nan, 0.1]}) == [], "it is over"


def test_every_rule_has_a_series_that_raises_it() -> None:
    tested = {"loss_is_no_number"} | {name for name, *_ in CASES}
    assert tested == {rule.name for rule in RULES}


def test_trouble_that_is_over_raises_no_flag() -> None:
    assert names({"unscorable_share": [1.0] * 5 + [0.0] * 10}) == []
    assert names({"completions/clipped_ratio": [1.0] * 5 + [0.0] * 10}) == []
    assert names({"kl": [*DRIFTED_KL, *[0.1] * 10]}) == []


@pytest.mark.parametrize("norms", [[0.0] * 6, [0.02] * 4 + [0.0] * 2])
def test_steps_with_equal_rewards_that_move_nothing_raise_no_flag(norms: list[float | None]) -> None:
    assert names({**MOVED, "grad_norm": norms}) == []


def test_a_metric_that_is_measured_no_more_is_over_too() -> None:
    assert names({"judge/disagreements": [3.0], "judge/second_opinions": [5.0], "loss": [0.0] * 10}) == [
        "judge_disagrees"
    ]
    assert names({"judge/disagreements": [3.0], "judge/second_opinions": [5.0], "loss": [0.0] * 11}) == []


@pytest.mark.parametrize("series", [LOST, {"kl": DRIFTED_KL}], ids=["lost", "drifted"])
def test_the_first_steps_and_single_steps_that_stand_out_raise_no_flag(series: Recorded) -> None:
    assert names({name: values[:3] for name, values in series.items()}) == []
    spike = {name: [*values[:5], max(value or 0.0 for value in values), *values[:5]] for name, values in series.items()}
    assert names(spike) == []


def test_three_steps_with_an_evaluation_before_and_after_raise_no_flag() -> None:
    assert names({"reward/mean": [0.1, 0.5, 0.9], "held_out/pass@1": [0.5, None, None, 0.25], "loss": [0.0] * 3}) == []


def test_scoring_and_evaluation_have_nothing_to_train() -> None:
    assert names({"reward/groups": [50.0], "reward/zero_variance_groups": [50.0], "reward/mean": [0.0]}) == []
    rewards = [0.5] * 10 + [0.0] * 20
    assert names({"reward/mean": rewards}) == [], "rollouts without a loss"
    assert names({"episodes/completion_tokens": [600.0] * 5 + [90.0] * 5, "completions": [10.0] * 10}) == []


def test_what_was_not_measured_and_what_is_no_number_is_passed_over() -> None:
    gaps = [None, math.nan, math.inf]
    assert names({name: gaps * 8 for rule in RULES for name in rule.metrics if name != "loss"}) == []
    with_gaps = [value for each in DRIFTED_KL for value in (each, None)]
    assert names({"kl": with_gaps}) == ["kl_drift"]
    assert flags_of({}) == ()


def test_a_low_entropy_counts_only_if_it_has_fallen_far_or_is_nearly_nothing() -> None:
    assert names({"entropy": [2.0] * 5 + [0.15] * 10}) == [], "a format was learned"
    assert names({"entropy": [0.05] * 5 + [0.02] * 10}) == []
    assert names({"entropy": [0.05] * 5 + [0.008] * 10}) == ["entropy_collapse"]


def test_a_high_entropy_counts_only_if_it_has_risen_far_or_is_nearly_that_of_chance() -> None:
    assert names({"entropy": [0.1] * 5 + [0.9] * 10}) == []
    assert names({"entropy": [1.0] * 5 + [2.5] * 10}) == []
    assert names({"entropy": [0.1, 0.2, 3.0, 5.0, 5.5] + [5.8] * 10}) == ["entropy_explosion"], (
        "lost in the first steps"
    )


def test_intervals_of_held_out_rates_decide_whether_a_rise_is_missing() -> None:
    def behind(rise: float, *, low: float, high: float) -> list[str]:
        ends: Recorded = {
            "reward/mean": [0.4] * 10 + [0.4 + rise] * 10,
            "held_out/pass@1": [0.4, *[None] * 18, 0.4],
            "held_out/pass@1_low": [low, *[None] * 18, low],
            "held_out/pass@1_high": [high, *[None] * 18, high],
        }
        return names(ends)

    assert behind(0.15, low=0.2, high=0.6) == [], "twenty problems cannot tell"
    assert behind(0.15, low=0.35, high=0.45) == ["held_out_stays_behind"]
    assert behind(0.4, low=0.2, high=0.6) == ["held_out_stays_behind"]


def test_what_is_told_live_is_what_the_views_of_the_run_show_after_every_step() -> None:
    for series in (HEALTHY, LOST, {"kl": DRIFTED_KL}):
        rows = rows_of(series)
        health = Health()
        for count, row in enumerate(rows, 1):
            health.add(row.step, row.metrics)
            assert health.flags == flags_of(series_of(rows[:count]))


def test_a_resumed_run_is_judged_by_all_of_its_steps_and_steps_done_again_count_once() -> None:
    rows = rows_of(LOST)
    whole, resumed = Health(), Health(rows[:18], first_step=14)
    for row in rows:
        whole.add(row.step, row.metrics)
    for row in rows[14:]:
        resumed.add(row.step, row.metrics)
    assert resumed.flags == whole.flags != ()


def test_a_flag_that_flickers_is_told_less_and_less_often() -> None:
    def flicker() -> Iterator[float]:
        for _ in range(400):
            yield from [1.0] + [0.0] * 24

    told = live({"unscorable_share": list(flicker())})
    assert [event.times for event in told] == list(range(1, len(told) + 1))
    assert told[0].step == 0
    assert len(told) <= 3, "it is away for 15 steps each time"
    lasting = [value for length in (12, 12, 30, 30, 60) for value in [1.0, *[0.0] * (length + 10)]]
    away = [late.step - early.step for early, late in pairwise(live({"unscorable_share": lasting}))]
    assert away == sorted(away)


def test_courses_keep_a_bounded_number_of_values() -> None:
    courses = courses_of((step, {"loss": float(step)}) for step in range(5000))
    course = courses.of("loss")
    assert (course.count, len(course.first), len(course.latest)) == (5000, 10, 10)
