"""The names of all metrics: one registry for commands, reports and the page on metrics.

A name keeps its unit and its meaning as long as it is here. Families of names have their variable part in braces
(`pass@{k}`). A run may contain names that are not here, because a trainer of another version logs them; they are shown
like the rest, without a unit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Unit(StrEnum):
    """What a metric's numbers count."""

    COUNT = "count"
    SHARE = "share"
    """From 0 to 1."""
    REWARD = "reward"
    SECONDS = "seconds"
    TOKENS = "tokens"
    NUMBER = "number"
    MONEY = "money"
    """In the currency of the price that the run keeps."""


class Group(StrEnum):
    """What metrics are about, the most important first: the order in which a person looks at a run."""

    REWARD = "reward and passing"
    TRAINING = "training"
    TIMING = "timing"
    SANDBOXES = "sandboxes"
    COMPLETIONS = "completions"
    EPISODES = "episodes"
    OTHER = "other"
    """Names that are not in the registry."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric."""

    name: str
    unit: Unit
    meaning: str


PERCENTILES = (50, 95, 99)

_LATENCIES = {
    "startup": "from the request for a sandbox until it runs; not measured for cells",
    "queue": "from when a completion is ready until it is first given to a cell or a sandbox",
    "exec": "from when the sandbox runs, or the cell receives the completion, until the command ends",
    "judge": "of that, the time of the code and all of its checks, by the clock inside the sandbox",
}


def _latency_metrics() -> tuple[Metric, ...]:
    return tuple(
        Metric(f"aviato/{part}_seconds_p{percent}", Unit.SECONDS, f"{meaning}, {percent}th percentile")
        for part, meaning in _LATENCIES.items()
        for percent in PERCENTILES
    )


REWARD_METRICS = (
    Metric("reward/mean", Unit.REWARD, "mean reward of the scored completions"),
    Metric("reward/std", Unit.REWARD, "standard deviation of their rewards"),
    Metric("reward/total", Unit.REWARD, "sum of their rewards"),
    Metric("reward/groups", Unit.COUNT, "groups: problems with at least two scored completions in the step"),
    Metric(
        "reward/zero_variance_groups",
        Unit.COUNT,
        "of these, groups whose rewards, components included, are all equal: these rewards train nothing",
    ),
    Metric("pass_rate", Unit.SHARE, "passed completions divided by scored completions"),
    Metric("pass@{k}", Unit.SHARE, "unbiased estimate of pass@k over problems with at least k scored completions"),
    Metric("pass@{k}_low", Unit.SHARE, "lower bound of its 95% interval"),
    Metric("pass@{k}_high", Unit.SHARE, "upper bound of its 95% interval"),
    Metric("component/{name}", Unit.REWARD, "mean of a reward component, with its weight; not part of the reward"),
    Metric(
        "training_reward/mean", Unit.REWARD, "mean of the reward used for training: `reward/mean` and all `component/*`"
    ),
    Metric(
        "training_reward/std", Unit.REWARD, "standard deviation of the reward used for training; only with components"
    ),
)

COMPLETION_METRICS = (
    Metric("completions", Unit.COUNT, "completions with a result"),
    Metric("scored", Unit.COUNT, "of these, completions with a reward"),
    Metric("unscorable", Unit.COUNT, "of these, completions that could not be scored, so they have no reward"),
    Metric("unscorable_share", Unit.SHARE, "unscorable completions divided by all completions"),
    Metric("abstained", Unit.COUNT, "completions to which the reward function gave no reward; only if there are any"),
    Metric("status/{status}", Unit.COUNT, "completions with that status"),
    Metric("no_code", Unit.COUNT, "completions without code to run"),
    Metric("truncated_answers", Unit.COUNT, "completions whose answer was cut off at the token limit"),
    Metric("cache_hits", Unit.COUNT, "completions that received the verdict of an identical completion"),
    Metric("hit_rate", Unit.SHARE, "cache hits divided by completions with code"),
    Metric("executed", Unit.COUNT, "completions that were given to a cell or a sandbox"),
    Metric(
        "executions",
        Unit.COUNT,
        "runs of these completions, failed attempts included: each in a cell or a fresh sandbox",
    ),
    Metric("retries", Unit.COUNT, "executions after an execution whose sandbox failed"),
    Metric("reruns", Unit.COUNT, "executions repeated because the checks can only run in one process"),
    Metric(
        "canaries",
        Unit.COUNT,
        "runs of known code: to calibrate a problem, or to determine whether the runtime or the completion failed",
    ),
)

JUDGE_METRICS = (
    Metric("judge/second_opinions", Unit.COUNT, "failed completions that were judged again in one process"),
    Metric("judge/disagreements", Unit.COUNT, "of these, completions that passed in one process"),
    Metric(
        "judge/unavailable_opinions", Unit.COUNT, "of these, completions without an opinion, because its sandbox failed"
    ),
)

SANDBOX_METRICS = (
    Metric(
        "aviato/sandboxes_created",
        Unit.COUNT,
        "sandboxes that were created, each worker once; without canaries and warm-ups",
    ),
    Metric("aviato/executions", Unit.COUNT, "commands run in them, failed attempts included"),
    Metric("aviato/exec_successes", Unit.COUNT, "commands that exited with 0: the checks passed"),
    Metric("aviato/exec_failures", Unit.COUNT, "commands that exited with another code"),
    Metric("aviato/exec_errors", Unit.COUNT, "commands without an exit code: timeouts, lost sandboxes"),
    Metric("aviato/success_rate", Unit.SHARE, "successes divided by executions"),
    Metric("aviato/error_rate", Unit.SHARE, "errors divided by executions"),
    Metric("aviato/avg_execs_per_sandbox", Unit.NUMBER, "commands per sandbox or cell, on average"),
    Metric("aviato/min_execs_per_sandbox", Unit.COUNT, "fewest commands in one sandbox or cell"),
    Metric(
        "aviato/max_execs_per_sandbox",
        Unit.COUNT,
        "most commands in one sandbox or cell; a high value shows runaway tool calls",
    ),
    Metric("aviato/startup_count", Unit.COUNT, "commands in a sandbox of their own, whose start was measured"),
    Metric("aviato/avg_startup_seconds", Unit.SECONDS, "from the request for such a sandbox until it runs, on average"),
    Metric("aviato/min_startup_seconds", Unit.SECONDS, "the shortest such time"),
    Metric("aviato/max_startup_seconds", Unit.SECONDS, "the longest such time"),
    *_latency_metrics(),
    Metric("aviato/sandbox_seconds", Unit.SECONDS, "total time for which cells and sandboxes were held"),
)

SDK_METRICS = {
    "cwsandbox/sandboxes_created": "aviato/sandboxes_created",
    "cwsandbox/executions": "aviato/executions",
    "cwsandbox/exec_completed_ok": "aviato/exec_successes",
    "cwsandbox/exec_completed_nonzero": "aviato/exec_failures",
    "cwsandbox/exec_failures": "aviato/exec_errors",
    "cwsandbox/exec_completion_rate": "aviato/success_rate",
    "cwsandbox/exec_failure_rate": "aviato/error_rate",
    "cwsandbox/avg_execs_per_sandbox": "aviato/avg_execs_per_sandbox",
    "cwsandbox/min_execs_per_sandbox": "aviato/min_execs_per_sandbox",
    "cwsandbox/max_execs_per_sandbox": "aviato/max_execs_per_sandbox",
    "cwsandbox/startup_count": "aviato/startup_count",
    "cwsandbox/avg_startup_seconds": "aviato/avg_startup_seconds",
    "cwsandbox/min_startup_seconds": "aviato/min_startup_seconds",
    "cwsandbox/max_startup_seconds": "aviato/max_startup_seconds",
}
"""The names that the reporter of today's SDK has for the same metrics."""

COST_METRICS = (
    Metric(
        "sandbox_seconds",
        Unit.SECONDS,
        "total time for which sandboxes existed since the start of the run, warm ones and workers included",
    ),
    Metric("cost", Unit.MONEY, "cost of that time, by the price of a sandbox-hour; only if a price is set"),
)

GENERATED_GROUPS, REPLACED_GROUPS, MISSING_GROUPS = "groups/generated", "groups/replaced", "groups/missing"
"""The metrics of dynamic sampling."""

TRUNCATED = "train/truncated"

TRAINER_METRICS = (
    Metric("loss", Unit.NUMBER, "the trainer's loss; around 0 for GRPO, whose advantages have mean 0"),
    Metric("grad_norm", Unit.NUMBER, "norm of the gradient before clipping"),
    Metric("learning_rate", Unit.NUMBER, "the learning rate of the step"),
    Metric("kl", Unit.NUMBER, "divergence from the reference model; only with a beta above 0"),
    Metric("entropy", Unit.NUMBER, "mean entropy of the policy's tokens"),
    Metric("num_tokens", Unit.TOKENS, "tokens processed since the start"),
    Metric("epoch", Unit.NUMBER, "passes over the problems since the start"),
    Metric(
        "completions/clipped_ratio",
        Unit.SHARE,
        "truncated answers divided by the answers of which it is known why they ended",
    ),
    Metric("completions/{statistic}", Unit.TOKENS, "lengths of the completions, as TRL logs them: `mean_length`, …"),
    Metric("clip_ratio/{statistic}", Unit.SHARE, "share of clipped tokens, as TRL logs it"),
    Metric("tools/{statistic}", Unit.NUMBER, "tool calls per episode, and the share that failed, as TRL logs them"),
    Metric(GENERATED_GROUPS, Unit.COUNT, "groups that were generated for the step; only with dynamic sampling"),
    Metric(REPLACED_GROUPS, Unit.COUNT, "places of groups without a gradient that a further group has taken"),
    Metric(MISSING_GROUPS, Unit.COUNT, "such places that no group has taken: nothing was trained on them"),
    Metric(TRUNCATED, Unit.COUNT, "completions without a gradient because they were cut off; only if these are masked"),
    Metric("step_seconds", Unit.SECONDS, "wall time of the step"),
    Metric("reward_seconds", Unit.SECONDS, "of that, time spent waiting for rewards"),
    Metric(
        "idle/trainer_share",
        Unit.SHARE,
        "share of the step in which the trainer waited for rewards, or ART's trainer for episodes",
    ),
    Metric("idle/sandbox_share", Unit.SHARE, "share of the step in which no command was under way in a sandbox"),
)

HELD_OUT_METRICS = (
    Metric("held_out/pass_rate", Unit.SHARE, "pass rate on held-out problems"),
    Metric("held_out/pass@{k}", Unit.SHARE, "pass@k of sampled answers to held-out problems"),
    Metric("held_out/pass@{k}_low", Unit.SHARE, "lower bound of its 95% interval"),
    Metric("held_out/pass@{k}_high", Unit.SHARE, "upper bound of its 95% interval"),
    Metric("held_out/problems", Unit.COUNT, "held-out problems with a sampled answer that could be scored"),
    Metric("held_out/greedy", Unit.SHARE, "pass@1 of greedy answers to held-out problems"),
    Metric("held_out/greedy_low", Unit.SHARE, "lower bound of its 95% interval"),
    Metric("held_out/greedy_high", Unit.SHARE, "upper bound of its 95% interval"),
    Metric("held_out/greedy_problems", Unit.COUNT, "held-out problems whose greedy answer could be scored"),
)

EPISODE_METRICS = (
    Metric("episodes/dropped", Unit.COUNT, "episodes lost to infrastructure failures; their groups are smaller"),
    Metric("episodes/destroyed", Unit.COUNT, "episodes that ended because their policy destroyed its sandbox"),
    Metric("episodes/tool_calls", Unit.COUNT, "calls of tools in all episodes"),
    Metric("episodes/attempts", Unit.COUNT, "attempts in all episodes"),
    Metric("episodes/prompt_tokens", Unit.TOKENS, "tokens that the model read, over all turns"),
    Metric("episodes/completion_tokens", Unit.TOKENS, "tokens that the model sampled"),
    Metric("episodes/endpoint_retries", Unit.COUNT, "repeated requests to the endpoint of the model"),
    Metric("episodes/policy_seconds", Unit.SECONDS, "time spent waiting for the model, summed over episodes"),
)

ART_METRICS = (
    Metric("train/step", Unit.COUNT, "training steps of the model so far, as ART's backend counts them"),
    Metric("train/gradient_steps", Unit.COUNT, "updates of the weights in the step; 0 if the step failed"),
    Metric("train/tokens", Unit.TOKENS, "sampled tokens that were trained on"),
    Metric("train/left_out", Unit.COUNT, "scored episodes left out because their tokens have no logprobs"),
    Metric("art/{name}", Unit.NUMBER, "a metric of ART's backend, under its own name"),
)

METRICS = (
    *REWARD_METRICS,
    *COMPLETION_METRICS,
    *JUDGE_METRICS,
    *SANDBOX_METRICS,
    *COST_METRICS,
    *TRAINER_METRICS,
    *HELD_OUT_METRICS,
    *EPISODE_METRICS,
    *ART_METRICS,
)
"""All of them, in the order in which they are written."""

_GROUPS = {
    Group.REWARD: (*REWARD_METRICS, *HELD_OUT_METRICS),
    Group.TRAINING: (*TRAINER_METRICS, *ART_METRICS),
    Group.SANDBOXES: (*SANDBOX_METRICS, *COST_METRICS),
    Group.COMPLETIONS: (*COMPLETION_METRICS, *JUDGE_METRICS),
    Group.EPISODES: EPISODE_METRICS,
}


def group_of(name: str) -> Group:
    """The group a metric is shown in; seconds are timing wherever they were measured, but for those that are paid."""
    metric = find_metric(name)
    if metric is None:
        return Group.OTHER
    if metric.unit is Unit.SECONDS and metric not in COST_METRICS:
        return Group.TIMING
    return next(group for group, metrics in _GROUPS.items() if metric in metrics)


def find_metric(name: str) -> Metric | None:
    """The metric a name belongs to; None if the registry does not have it."""
    for pattern, metric in _patterns():
        if pattern.fullmatch(name):
            return metric
    return None


def shown_order(name: str) -> tuple[int, str]:
    """A sort key: the order of the registry, then names it does not have."""
    metric = find_metric(name)
    return (len(METRICS) if metric is None else METRICS.index(metric), name)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Metric], ...]:
    def pattern(name: str) -> str:
        return re.sub(r"\\{\w+\\}", ".+", re.escape(name).replace(r"\{k\}", r"\d+"))

    return tuple((re.compile(pattern(metric.name)), metric) for metric in METRICS)
