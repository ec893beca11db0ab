"""Flags: signs in the metrics of a known problem of a run.

Each flag is a rule over the history of a few metrics, and a row of one table: its metrics, its condition, its threshold
and a remedy. The table is here and in docs/reference/metrics.md, and a test compares them. A flag is a hint, never an
error: it changes no number, and the meaning of a number depends on the task. `Health` reports the flags of a run that
is being written, so the user sees the same flags live as in every view of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sandrl.events import Emit, FlagRaised, ignore
from sandrl.runs import signs
from sandrl.runs.courses import RECENT_STEPS, STRETCH_STEPS, Courses
from sandrl.runs.metrics import Unit
from sandrl.runs.rows import MetricsRow
from sandrl.runs.series import Series


@dataclass(frozen=True, slots=True)
class Flag:
    """A sign that something goes wrong.

    Attributes:
        value: What was compared with the threshold; None if it is not a number.
        threshold: What it was compared with; None if any number would have been good.
        fields: The fields that the hint names, as in `sandrl.errors.SandrlError`.
    """

    name: str
    message: str
    hint: str
    metrics: tuple[str, ...]
    value: float | None
    threshold: float | None
    unit: Unit
    first_step: int
    last_step: int
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """When a flag is raised, in words and in code: the condition of the metrics that is compared with the threshold."""

    name: str
    metrics: tuple[str, ...]
    condition: str
    threshold: str
    unit: Unit
    hint: str
    find: Callable[[Courses], signs.Finding | None]
    fields: tuple[str, ...] = ()

    def flag(self, courses: Courses) -> Flag | None:
        """The flag, if it is raised."""
        found = self.find(courses)
        if found is None:
            return None
        return Flag(
            self.name,
            message=found.message,
            hint=self.hint,
            metrics=found.metrics,
            value=found.value,
            threshold=found.threshold,
            unit=self.unit,
            first_step=found.steps[0],
            last_step=found.steps[1],
            fields=self.fields,
        )


def flags_of(series: Mapping[str, Series]) -> tuple[Flag, ...]:
    """The flags that the latest steps of a run raise."""
    steps: dict[int, dict[str, float | None]] = {}
    for name, each in series.items():
        for step, value in zip(each.steps, each.values, strict=True):
            steps.setdefault(step, {})[name] = value
    return raised(courses_of(sorted(steps.items())))


def courses_of(steps: Iterable[tuple[int, Mapping[str, float | None]]] = ()) -> Courses:
    """The courses that the rules look at."""
    courses = Courses({name for rule in RULES for name in rule.metrics} | signs.BOUNDS | set(signs.OF_TRAINING))
    for step, metrics in steps:
        courses.add(step, metrics)
    return courses


def raised(courses: Courses) -> tuple[Flag, ...]:
    """The flags that are raised after the latest step."""
    return tuple(flag for rule in RULES if (flag := rule.flag(courses)) is not None)


_LENGTHS = f"tokens per completion (ART: `{signs.TOKENS}` by `{signs.EPISODES}`)"
_LATEST = f"of the last {RECENT_STEPS} steps"
_COMPARED = f"the median {_LATEST}, compared with the median of the first {signs.BASELINE_STEPS}"

RULES = (
    Rule(
        "loss_is_no_number",
        ("loss",),
        "the latest value",
        "NaN or infinite",
        Unit.NUMBER,
        "return to the last good checkpoint, with a lower learning rate",
        signs.loss_is_no_number,
    ),
    Rule(
        "runaway_tool_calls",
        ("aviato/max_execs_per_sandbox",),
        f"the highest value {_LATEST}",
        f"{signs.RUNAWAY_EXECS} or more",
        Unit.COUNT,
        "limit the tool calls of an episode, and read an episode that made many",
        signs.runaway_tool_calls,
    ),
    Rule(
        "stuck_loops",
        ("aviato/max_execs_per_sandbox", "aviato/min_execs_per_sandbox"),
        f"the largest difference between the two in one {_LATEST}",
        f"{signs.STUCK_SPREAD} or more",
        Unit.COUNT,
        "find the episodes that repeat a call: sandrl runs show --grep CALL",
        signs.stuck_loops,
    ),
    Rule(
        "many_unscorable",
        ("unscorable_share",),
        f"the mean {_LATEST}",
        f"above {signs.UNSCORABLE_SHARE:.0%}",
        Unit.SHARE,
        "read the reasons: sandrl runs show --status infrastructure",
        signs.many_unscorable,
    ),
    Rule(
        "judge_disagrees",
        ("judge/disagreements", "judge/second_opinions", "judge/unavailable_opinions"),
        f"the sum of disagreements {_LATEST}",
        "above 0",
        Unit.COUNT,
        "sandrl runs show --disagreements: the judge rejects correct solutions, or they deceive their checks",
        signs.judge_disagrees,
    ),
    Rule(
        "zero_variance_groups",
        ("reward/zero_variance_groups", "reward/groups"),
        f"the share of groups with equal rewards {_LATEST}, with at least {signs.FEWEST_GROUPS} groups, from the second"
        " step on",
        f"above {signs.FLAT_SHARE:.0%}",
        Unit.SHARE,
        "add problems that are solved sometimes, or draw more samples",
        signs.zero_variance_groups,
    ),
    Rule(
        "moved_without_rewards",
        ("grad_norm", "reward/zero_variance_groups", "reward/groups"),
        f"the number of steps whose groups all have equal rewards, with a gradient, {_LATEST}",
        f"{signs.MOVED_STEPS} or more",
        Unit.COUNT,
        "end the run, or train without other terms of the loss: `beta` 0, `set` entropy_coef=0, `set` weight_decay=0",
        signs.moved_without_rewards,
        ("beta", "set"),
    ),
    Rule(
        "truncated_completions",
        ("completions/clipped_ratio",),
        f"the mean {_LATEST}; in training with at least {signs.FEWEST_TRUNCATED_STEPS} steps",
        f"above {signs.TRUNCATED_ANSWERS_SHARE:.0%}; in training {signs.TRUNCATED_SHARE:.0%}",
        Unit.SHARE,
        "a larger max_tokens, or a prompt that asks for short answers: a completion that is cut off rarely passes",
        signs.truncated_completions,
        ("max_tokens",),
    ),
    Rule(
        "entropy_collapse",
        signs.ENTROPY,
        _COMPARED,
        f"below {signs.ENTROPY_LEFT:.0%} of it and below {signs.LOW_ENTROPY}, or below {signs.LOWEST_ENTROPY}",
        Unit.NUMBER,
        "a lower learning_rate, `set` entropy_coef=0.005, or a higher `temperature`: equal samples train nothing",
        signs.entropy_collapse,
        ("learning_rate", "set", "temperature"),
    ),
    Rule(
        "entropy_explosion",
        signs.ENTROPY,
        _COMPARED,
        f"above {signs.ENTROPY_FACTOR:g} times it and above {signs.HIGH_ENTROPY:g}, or above {signs.HIGHEST_ENTROPY:g}",
        Unit.NUMBER,
        "a lower learning_rate, or a smaller entropy_coef: the policy writes tokens at random",
        signs.entropy_explosion,
        ("learning_rate",),
    ),
    Rule(
        "length_collapse",
        (signs.LENGTH, signs.TOKENS, signs.EPISODES),
        f"{_LENGTHS}, {_COMPARED}; training only",
        f"below it by a factor of {signs.LENGTH_FACTOR:g}",
        Unit.TOKENS,
        "read recent completions; a lower learning_rate, or a `beta` above 0, keeps the policy near its start",
        signs.length_collapse,
        ("learning_rate", "beta"),
    ),
    Rule(
        "length_explosion",
        (signs.LENGTH, signs.TOKENS, signs.EPISODES),
        f"{_LENGTHS}, {_COMPARED}; training only",
        f"above it by a factor of {signs.LENGTH_FACTOR:g}",
        Unit.TOKENS,
        "read recent completions; length_penalty, or another loss_type, removes the advantage of long completions",
        signs.length_explosion,
        ("length_penalty", "loss_type"),
    ),
    Rule(
        "kl_drift",
        signs.KL,
        f"the median {_LATEST}, with at least {signs.FEWEST_KL_STEPS} steps; measured only with a beta above 0",
        f"above {signs.LARGE_KL}",
        Unit.NUMBER,
        "a lower learning_rate, or a larger `beta`; read recent completions and check that they are still text",
        signs.kl_drift,
        ("learning_rate", "beta"),
    ),
    Rule(
        "reward_collapse",
        ("reward/mean",),
        f"the mean {_LATEST}, compared with the highest mean of {STRETCH_STEPS} steps in a row; training only",
        f"below {signs.REWARD_LEFT:.0%} of it, if that was {signs.REWARD_ONCE} or more",
        Unit.REWARD,
        "return to an earlier checkpoint, with a lower learning rate",
        signs.reward_collapse,
    ),
    Rule(
        "held_out_stays_behind",
        ("reward/mean", *signs.HELD_OUT),
        "the rise of the reward from the first third of the steps to the last (at most 10 steps each), with at least 10"
        " steps, while the held-out pass rate did not rise from its first value to its latest; if its 95% intervals are"
        " known, they must exclude such a rise",
        f"{signs.RISE} or more",
        Unit.REWARD,
        "read recent completions: the policy may pass checks without solving the problems",
        signs.held_out_stays_behind,
    ),
)
"""All rules, the most urgent first."""


_OF_FLAG = ("name", "message", "hint", "metrics", "value", "threshold", "fields")


@dataclass(slots=True)
class _Reports:
    times: int
    seen: int


class Health:
    """Watches the metrics of a run; of its earlier rows, those before the job's first step count.

    A flag that disappears and returns is reported again only after it was absent for some steps, and this number
    doubles each time: a flag that flickers through 10,000 steps is reported about ten times.

    Attributes:
        flags: Those that stand after the latest step.
    """

    def __init__(self, rows: Iterable[MetricsRow] = (), *, first_step: int = 0, emit: Emit = ignore) -> None:
        self._courses = courses_of((row.step, row.metrics) for row in rows if row.step < first_step)
        self._emit = emit
        self._told: dict[str, _Reports] = {}
        self.flags = raised(self._courses)

    def add(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Takes the metrics of a step, which follows all those before, and tells of the flags that it raises."""
        self._courses.add(step, metrics)
        self.flags = raised(self._courses)
        for flag in self.flags:
            told = self._told.setdefault(flag.name, _Reports(times=0, seen=step))
            if not told.times or step - told.seen > RECENT_STEPS * 2 ** (told.times - 1):
                told.times += 1
                self._emit(
                    FlagRaised(
                        step,
                        **{name: getattr(flag, name) for name in _OF_FLAG},
                        unit=flag.unit.value,
                        times=told.times,
                    )
                )
            told.seen = step
