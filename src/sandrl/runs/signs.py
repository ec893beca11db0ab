"""The conditions of the rules about a run's health: one function for each sign of trouble, with its threshold.

A rule that compares the latest steps with the first ones needs several of both, and rules use means or medians over
steps. So the first steps of a run, its last evaluation, and single outliers raise no flag. The thresholds were chosen
with real runs of the tiny policy: healthy runs stay away from each threshold, and a run that is broken on purpose
exceeds its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from sandrl.runs import series
from sandrl.runs.courses import RECENT_STEPS, STRETCH_STEPS, Courses, Point
from sandrl.runs.statistics import mean

RUNAWAY_EXECS = 20
STUCK_SPREAD = 10
UNSCORABLE_SHARE = 0.05
FLAT_SHARE = 0.75
FEWEST_GROUPS = 10
MOVED_STEPS = 5
RISE = 0.1
FEWEST_STEPS = 10
TRUNCATED_SHARE = 0.2
TRUNCATED_ANSWERS_SHARE = 0.02
FEWEST_TRUNCATED_STEPS = 3
LOW_ENTROPY, LOWEST_ENTROPY, ENTROPY_LEFT = 0.1, 0.01, 0.1
HIGH_ENTROPY, HIGHEST_ENTROPY, ENTROPY_FACTOR = 1.0, 4.0, 3.0
LENGTH_FACTOR = 2.5
LARGE_KL = 0.5
FEWEST_KL_STEPS = 5
REWARD_ONCE, REWARD_LEFT = 0.2, 0.1
BASELINE_STEPS = 5

# By trainer; ART's local backend has names of its own.
ENTROPY = ("entropy", "art/loss/entropy")
KL = ("kl", "art/loss/kl_policy_ref", "art/loss/kl_div")
LENGTH = "completions/mean_length"
TOKENS, EPISODES = "episodes/completion_tokens", "completions"
OF_TRAINING = ("loss", "train/gradient_steps")
HELD_OUT = ("held_out/pass_rate", "held_out/pass@1")
_LOW, _HIGH = series.BOUNDS
BOUNDS = frozenset(name + bound for name in HELD_OUT for bound in series.BOUNDS)
_ENTROPY_MESSAGE = "the entropy of the policy's tokens is {now:.3g}, after {begin:.3g} in the first steps"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule has found: that part of a flag which depends on the run."""

    message: str
    metrics: tuple[str, ...]
    value: float | None
    threshold: float | None
    steps: tuple[int, int]


def loss_is_no_number(courses: Courses) -> Finding | None:
    """The latest loss is NaN or infinite."""
    last = courses.of("loss").last
    if last is None or math.isfinite(last.value):
        return None
    return Finding(f"the loss of step {last.step} is NaN or infinite", ("loss",), None, None, (last.step, last.step))


def runaway_tool_calls(courses: Courses) -> Finding | None:
    """An episode runs very many commands."""
    name = "aviato/max_execs_per_sandbox"
    points = courses.recent(name)
    most = max((point.value for point in points), default=0.0)
    if most < RUNAWAY_EXECS:
        return None
    return Finding(f"a sandbox ran {most:.0f} commands within one step", (name,), most, RUNAWAY_EXECS, _span(points))


def stuck_loops(courses: Courses) -> Finding | None:
    """Some episodes of a step run many more commands than others."""
    names = ("aviato/max_execs_per_sandbox", "aviato/min_execs_per_sandbox")
    points, least = courses.recent(names[0]), dict(courses.recent(names[1]))
    spread = max((most - least[step] for step, most in points if step in least), default=0.0)
    if spread < STUCK_SPREAD:
        return None
    message = f"sandboxes of one step differ by up to {spread:.0f} commands"
    return Finding(message, names, spread, STUCK_SPREAD, _span(points))


def many_unscorable(courses: Courses) -> Finding | None:
    """Many completions have no reward."""
    points = courses.recent("unscorable_share")
    share = _mean(points)
    if share is None or share <= UNSCORABLE_SHARE:
        return None
    message = f"{share:.0%} of the completions have no reward"
    return Finding(message, ("unscorable_share",), share, UNSCORABLE_SHARE, _span(points))


def judge_disagrees(courses: Courses) -> Finding | None:
    """Failed completions pass in one process."""
    names = ("judge/disagreements", "judge/second_opinions", "judge/unavailable_opinions")
    points = courses.recent(names[0])
    disagreements, asked, unavailable = (sum(value for _, value in courses.recent(name)) for name in names)
    if not disagreements:
        return None
    message = f"{disagreements:.0f} of {asked - unavailable:.0f} failed completions pass in one process"
    return Finding(message, names[:2], disagreements, 0.0, _span(points))


def zero_variance_groups(courses: Courses) -> Finding | None:
    """Most groups have equal rewards, so most completions teach nothing."""
    names = ("reward/zero_variance_groups", "reward/groups")
    points = courses.recent(names[0])
    flat, groups = (sum(value for _, value in courses.recent(name)) for name in names)
    # One step alone is no training: scoring has groups as well.
    if courses.of(names[1]).count < 2 or groups < FEWEST_GROUPS or flat / groups <= FLAT_SHARE:
        return None
    reward = _mean(courses.recent("reward/mean"))
    around = "" if reward is None else f" (mean reward {reward:.2f})"
    message = f"in {flat / groups:.0%} of the groups all rewards are equal{around}, so these rewards train nothing"
    return Finding(message, names, flat / groups, FLAT_SHARE, _span(points))


def moved_without_rewards(courses: Courses) -> Finding | None:
    """Steps whose rewards are all equal within their groups change the policy by other terms of the loss."""
    names = ("grad_norm", "reward/zero_variance_groups", "reward/groups")
    groups, flat = dict(courses.recent(names[2])), dict(courses.recent(names[1]))
    points = courses.recent(names[0])
    moved = [step for step, norm in points if norm > 0 and groups.get(step) and flat.get(step) == groups[step]]
    if len(moved) < MOVED_STEPS:
        return None
    message = f"{len(moved)} steps without different rewards in a group have changed the policy"
    return Finding(message, names, len(moved), MOVED_STEPS, _span(points))


def truncated_completions(courses: Courses) -> Finding | None:
    """Many completions are cut off at the most tokens they may have."""
    name = "completions/clipped_ratio"
    points = courses.recent(name)
    share = _mean(points)
    # What is trained learns to end its answers in time; what is measured is what it is.
    is_training = _is_training(courses)
    threshold = TRUNCATED_SHARE if is_training else TRUNCATED_ANSWERS_SHARE
    if share is None or share <= threshold or (is_training and len(points) < FEWEST_TRUNCATED_STEPS):
        return None
    message = f"{share:.0%} of the completions are cut off at the token limit"
    return Finding(message, (name,), share, threshold, _span(points))


def entropy_collapse(courses: Courses) -> Finding | None:
    """The policy has become nearly deterministic."""
    compared = _compared(courses, *ENTROPY)
    if compared is None:
        return None
    threshold = max(LOWEST_ENTROPY, min(LOW_ENTROPY, ENTROPY_LEFT * compared.begin))
    return compared.finding(_ENTROPY_MESSAGE, threshold) if compared.now < threshold else None


def entropy_explosion(courses: Courses) -> Finding | None:
    """The policy chooses its tokens nearly at random."""
    compared = _compared(courses, *ENTROPY)
    if compared is None:
        return None
    threshold = min(HIGHEST_ENTROPY, max(HIGH_ENTROPY, ENTROPY_FACTOR * compared.begin))
    return compared.finding(_ENTROPY_MESSAGE, threshold) if compared.now > threshold else None


def length_collapse(courses: Courses) -> Finding | None:
    """Completions have become much shorter."""
    compared = _compared_lengths(courses)
    if compared is None:
        return None
    threshold = compared.begin / LENGTH_FACTOR
    message = "completions have shrunk to {now:.0f} tokens, after {begin:.0f} in the first steps"
    return compared.finding(message, threshold) if compared.now < threshold else None


def length_explosion(courses: Courses) -> Finding | None:
    """Completions have become much longer."""
    compared = _compared_lengths(courses)
    if compared is None:
        return None
    threshold = compared.begin * LENGTH_FACTOR
    message = "completions have grown to {now:.0f} tokens, after {begin:.0f} in the first steps"
    return compared.finding(message, threshold) if compared.now > threshold else None


def kl_drift(courses: Courses) -> Finding | None:
    """The policy is far from the reference model."""
    for name in KL:
        points = courses.recent(name)
        if len(points) < FEWEST_KL_STEPS:
            continue
        # The estimate grows exponentially in single tokens: a mean would be that of its largest value.
        drift = _median(points)
        if drift > LARGE_KL:
            message = f"the policy's divergence from the reference model is {drift:.3g} per token"
            return Finding(message, (name,), drift, LARGE_KL, _span(points))
    return None


def reward_collapse(courses: Courses) -> Finding | None:
    """The reward has fallen to nearly nothing, and stays there."""
    name = "reward/mean"
    course, points = courses.of(name), courses.recent(name)
    if not _is_training(courses) or course.best < REWARD_ONCE or len(points) < RECENT_STEPS:
        return None
    now, threshold = _mean(points), REWARD_LEFT * course.best
    if now is None or now >= threshold:
        return None
    message = f"the mean reward is {now:.2g}, after {course.best:.2f} in the best {STRETCH_STEPS} steps in a row"
    return Finding(message, (name,), now, threshold, _span(points))


def held_out_stays_behind(courses: Courses) -> Finding | None:
    """The reward has risen, and the pass rate on held-out problems has not."""
    rewards = courses.of("reward/mean")
    name = next((each for each in HELD_OUT if courses.of(each).count), None)
    if name is None or courses.of(name).count < 2 or rewards.count < FEWEST_STEPS:
        return None
    count = min(rewards.count // 3, RECENT_STEPS)
    rise = (_mean(tuple(rewards.latest)[-count:]) or 0.0) - (_mean(rewards.first[:count]) or 0.0)
    held_out = courses.of(name)
    first, last = held_out.first[0], held_out.latest[-1]
    gain = last.value - first.value
    if rise < RISE or gain > 0 or gain + _margin(courses, name, first, last) >= rise:
        return None
    message = f"the reward rose by {rise:.2f} while {name} changed by {gain:+.2f}"
    return Finding(message, ("reward/mean", name), rise, RISE, (first.step, max(last.step, rewards.latest[-1].step)))


def _margin(courses: Courses, name: str, first: Point, last: Point) -> float:
    # How much larger a gain on held-out problems may be than what was measured; 0 where no interval is known. The upper
    # bound of a difference of two proportions from the interval of each (Newcombe 1998, Statistics in Medicine 17,
    # 873-890, method 10).
    low = next((each for each in courses.of(name + _LOW).first if each.step == first.step), None)
    high = next((each for each in courses.of(name + _HIGH).latest if each.step == last.step), None)
    if low is None or high is None:
        return 0.0
    return math.hypot(first.value - low.value, high.value - last.value)


@dataclass(frozen=True, slots=True)
class _Trend:
    metrics: tuple[str, ...]
    begin: float
    now: float
    steps: tuple[int, int]

    @classmethod
    def of(cls, metrics: tuple[str, ...], first: Sequence[Point], recent: Sequence[Point]) -> _Trend | None:
        begin = first[:BASELINE_STEPS]
        points = [point for point in recent if point.step > begin[-1].step] if begin else []
        if len(points) < BASELINE_STEPS:
            return None
        return cls(metrics, _median(begin), _median(points), _span(points))

    def finding(self, message: str, threshold: float) -> Finding:
        return Finding(message.format(begin=self.begin, now=self.now), self.metrics, self.now, threshold, self.steps)


def _compared(courses: Courses, *names: str) -> _Trend | None:
    name = next((each for each in names if courses.of(each).count), None)
    return None if name is None else _Trend.of((name,), courses.of(name).first, courses.recent(name))


def _compared_lengths(courses: Courses) -> _Trend | None:
    # Compares how many tokens a completion has; an episode has those of all of its turns.
    if not _is_training(courses):
        return None
    if courses.of(LENGTH).count:
        return _compared(courses, LENGTH)
    counts = {**dict(courses.of(EPISODES).first), **dict(courses.of(EPISODES).latest)}

    def by_episode(points: Iterable[Point]) -> list[Point]:
        return [Point(step, tokens / counts[step]) for step, tokens in points if counts.get(step)]

    return _Trend.of((TOKENS, EPISODES), by_episode(courses.of(TOKENS).first), by_episode(courses.recent(TOKENS)))


def _is_training(courses: Courses) -> bool:
    return any(courses.of(name).last is not None for name in OF_TRAINING)


def _median(points: Sequence[Point]) -> float:
    return median(point.value for point in points)


def _mean(points: Sequence[Point]) -> float | None:
    return mean([point.value for point in points])


def _span(points: Sequence[Point]) -> tuple[int, int]:
    return points[0].step, points[-1].step
