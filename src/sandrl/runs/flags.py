"""What to look at first: signs in the metrics that training goes wrong in a known way.

Each flag is a rule over series, with its threshold written down here and in docs/metrics.md. A flag is a hint, never an
error: the numbers stay what they are, and what they mean depends on the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sandrl.runs.series import Series
from sandrl.runs.statistics import mean

RECENT_STEPS = 10
RUNAWAY_EXECS = 20
STUCK_SPREAD = 10
UNSCORABLE_SHARE = 0.05
ZERO_VARIANCE_SHARE = 0.5
RISE = 0.1


@dataclass(frozen=True, slots=True)
class Flag:
    """A sign that something goes wrong.

    Attributes:
        name: Its word.
        message: What was seen, in one line.
        hint: What to do about it, in one line.
    """

    name: str
    message: str
    hint: str


SeriesByName = Mapping[str, Series]


def flags_of(series: SeriesByName) -> tuple[Flag, ...]:
    """The flags that the latest steps raise."""
    return tuple(flag for rule in _RULES for flag in rule(series))


def _runaway_tool_calls(series: SeriesByName) -> Iterator[Flag]:
    most = max(_recent(series, "aviato/max_execs_per_sandbox"), default=0.0)
    if most >= RUNAWAY_EXECS:
        message = f"a sandbox ran {most:.0f} commands within one step"
        yield Flag("runaway_tool_calls", message, "limit the tool calls of an episode, and read one that made many")


def _stuck_loops(series: SeriesByName) -> Iterator[Flag]:
    most = _recent(series, "aviato/max_execs_per_sandbox")
    least = _recent(series, "aviato/min_execs_per_sandbox")
    spread = max((high - low for high, low in zip(most, least, strict=False)), default=0.0)
    if spread >= STUCK_SPREAD:
        message = f"sandboxes of one step differ by up to {spread:.0f} commands"
        yield Flag("stuck_loops", message, "some episodes repeat themselves: sandrl runs show --grep the repeated call")


def _many_unscorable(series: SeriesByName) -> Iterator[Flag]:
    share = mean(_recent(series, "unscorable_share")) or 0.0
    if share > UNSCORABLE_SHARE:
        message = f"{share:.0%} of the completions have no reward"
        yield Flag("many_unscorable", message, "sandrl runs show --status infrastructure says why")


def _judge_disagrees(series: SeriesByName) -> Iterator[Flag]:
    disagreements = sum(_recent(series, "judge/disagreements"))
    if disagreements:
        asked = sum(_recent(series, "judge/second_opinions")) - sum(_recent(series, "judge/unavailable_opinions"))
        message = f"{disagreements:.0f} of {asked:.0f} failed completions pass in one process"
        hint = "sandrl runs show --disagreements: the judge is unfair to them, or they deceive their checks"
        yield Flag("judge_disagrees", message, hint)


def _zero_variance(series: SeriesByName) -> Iterator[Flag]:
    groups = sum(_recent(series, "reward/groups"))
    flat = sum(_recent(series, "reward/zero_variance_groups"))
    is_training = len(series["reward/groups"].steps) > 1 if "reward/groups" in series else False
    if is_training and groups and flat / groups > ZERO_VARIANCE_SHARE:
        message = f"in {flat / groups:.0%} of the groups all rewards are equal, which gives no gradient"
        yield Flag("zero_variance_groups", message, "mix in problems that are solved sometimes, or draw more samples")


def _held_out_stays_behind(series: SeriesByName) -> Iterator[Flag]:
    rewards = series.get("reward/mean")
    held_out = series.get("held_out/pass_rate") or series.get("held_out/pass@1")
    if rewards is None or held_out is None or len(rewards.finite) < 3 or len(held_out.finite) < 2:
        return
    third = max(len(rewards.finite) // 3, 1)
    rise = (mean(rewards.finite[-third:]) or 0.0) - (mean(rewards.finite[:third]) or 0.0)
    gain = held_out.finite[-1] - held_out.finite[0]
    if rise >= RISE and gain <= 0:
        message = f"the reward rose by {rise:.2f} while {held_out.name} changed by {gain:+.2f}"
        yield Flag("held_out_stays_behind", message, "the policy may be gaming its checks: read what it writes now")


def _no_number(series: SeriesByName) -> Iterator[Flag]:
    loss = series.get("loss")
    if loss is not None and not math.isfinite(loss.last):
        message = f"the loss of step {loss.steps[-1]} is no number"
        yield Flag("loss_is_no_number", message, "go back to the last good checkpoint, with a lower learning rate")


_RULES: tuple[Callable[[SeriesByName], Iterator[Flag]], ...] = (
    _no_number, _runaway_tool_calls, _stuck_loops, _many_unscorable, _judge_disagrees, _zero_variance,
    _held_out_stays_behind,
)  # fmt: skip


def _recent(series: SeriesByName, name: str) -> tuple[float, ...]:
    return series[name].finite[-RECENT_STEPS:] if name in series else ()
