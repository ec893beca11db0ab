"""From completions and executions to the values of metrics.

The same functions serve a job that is running, which counts events, and a reader that finds a run without metrics,
because its job was killed, and counts rows: both name the same things alike, so the two cannot disagree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sandrl.events import CompletionFinished, ExecutionFinished
from sandrl.runs.metrics import PERCENTILES
from sandrl.runs.rows import TrajectoryRow
from sandrl.runs.statistics import deviation, mean, pass_at_k, percentile

Values: TypeAlias = dict[str, float | None]

_PASS_AT = (1, 5, 10, 100)


FinishedCompletion: TypeAlias = CompletionFinished | TrajectoryRow


@dataclass(frozen=True, slots=True)
class ExecutionStats:
    """What happened in one sandbox.

    Attributes:
        total: Commands run.
        successes: Those that exited 0.
        failures: Those that exited otherwise.
        errors: Those that brought no exit code.
    """

    total: int = 0
    successes: int = 0
    failures: int = 0
    errors: int = 0


def groups_of(completions: Iterable[FinishedCompletion]) -> dict[str, list[float]]:
    """The rewards of each problem with at least two scored completions: what GRPO compares with one another."""
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    for each in completions:
        if each.reward is not None:
            rewards[each.task_id].append(each.reward)
    return {task_id: rewards_G for task_id, rewards_G in rewards.items() if len(rewards_G) > 1}


def completion_metrics(completions: Sequence[FinishedCompletion]) -> Values:
    """The metrics of completions that belong together: those of a step, or of a run without steps."""
    scored = [each for each in completions if each.reward is not None]
    rewards = [each.reward for each in scored if each.reward is not None]
    passed = [is_pass(each) for each in scored]
    groups = groups_of(completions)
    count, hits = len(completions), sum(each.cached for each in completions)
    executed = sum(each.sandboxes > 0 for each in completions)
    return {
        "reward/mean": mean(rewards),
        "reward/std": deviation(rewards),
        "reward/total": sum(rewards),
        "reward/groups": float(len(groups)),
        "reward/zero_variance_groups": float(sum(min(rewards_G) == max(rewards_G) for rewards_G in groups.values())),
        "pass_rate": mean(passed),
        **_pass_at(scored),
        **_components(scored),
        "completions": float(count),
        "scored": float(len(scored)),
        "unscorable": float(count - len(scored)),
        "unscorable_share": (count - len(scored)) / count if count else None,
        **{f"status/{status}": float(n) for status, n in sorted(Counter(each.status for each in completions).items())},
        "no_code": float(sum(each.status == "no_code" for each in completions)),
        "cache_hits": float(hits),
        "hit_rate": hits / (hits + executed) if hits + executed else None,
        "executed": float(executed),
        "executions": float(sum(each.sandboxes for each in completions)),
        "retries": float(sum(each.retries for each in completions)),
        "reruns": float(sum(each.reruns for each in completions)),
        "canaries": float(sum(each.canaries for each in completions)),
    }


def opinion_metrics(statuses: Sequence[str]) -> Values:
    """The metrics of second opinions; none where none was asked for.

    Args:
        statuses: What came of each: a status in one process, `infrastructure` where there is none.
    """
    if not statuses:
        return {}
    counts = Counter(statuses)
    return {
        "judge/second_opinions": float(len(statuses)),
        "judge/disagreements": float(counts["passed"]),
        "judge/unavailable_opinions": float(counts["infrastructure"]),
    }


def execution_metrics(executions: Sequence[ExecutionFinished]) -> Values:
    """The metrics of commands in sandboxes, the ten of `aviato/*` among them."""
    outcomes = Counter(each.outcome for each in executions)
    per_sandbox = [stats.total for stats in execution_stats(executions).values()]
    total = len(executions)
    held = [(each.startup_seconds or 0.0) + (each.exec_seconds or 0.0) for each in executions]
    return {
        "aviato/sandboxes_created": float(len(per_sandbox)),
        "aviato/executions": float(total),
        "aviato/exec_successes": float(outcomes["success"]),
        "aviato/exec_failures": float(outcomes["failure"]),
        "aviato/exec_errors": float(outcomes["error"]),
        "aviato/success_rate": outcomes["success"] / total if total else None,
        "aviato/error_rate": outcomes["error"] / total if total else None,
        "aviato/avg_execs_per_sandbox": mean(per_sandbox),
        "aviato/min_execs_per_sandbox": float(min(per_sandbox)) if per_sandbox else None,
        "aviato/max_execs_per_sandbox": float(max(per_sandbox)) if per_sandbox else None,
        **_percentiles("startup", [each.startup_seconds for each in executions]),
        **_percentiles("queue", [each.queue_seconds for each in executions]),
        **_percentiles("exec", [each.exec_seconds for each in executions]),
        **_percentiles("judge", [each.judge_seconds for each in executions]),
        "aviato/sandbox_seconds": sum(held),
    }


def execution_stats(executions: Iterable[ExecutionFinished]) -> dict[str, ExecutionStats]:
    """What happened in each sandbox, by its id; commands that never got a sandbox are in none."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in executions:
        if each.sandbox_id is not None:
            counts[each.sandbox_id][each.outcome] += 1
    return {
        sandbox_id: ExecutionStats(each.total(), each["success"], each["failure"], each["error"])
        for sandbox_id, each in counts.items()
    }


def is_pass(completion: FinishedCompletion) -> bool:
    """Whether every check passed, and there was one."""
    return completion.status == "passed" and completion.passed == completion.total > 0


def _pass_at(scored: Iterable[FinishedCompletion]) -> Values:
    tries: defaultdict[str, list[bool]] = defaultdict(list)
    for each in scored:
        tries[each.task_id].append(is_pass(each))
    values: Values = {}
    for k in _PASS_AT:
        enough = [pass_at_k(len(each), sum(each), k) for each in tries.values() if len(each) >= k]
        if enough:
            values[f"pass@{k}"] = mean(enough)
    return values


def _components(scored: Iterable[FinishedCompletion]) -> Values:
    by_name: defaultdict[str, list[float]] = defaultdict(list)
    for each in scored:
        for name, value in each.components.items():
            by_name[name].append(value)
    return {f"component/{name}": mean(values) for name, values in by_name.items()}


def _percentiles(part: str, seconds: Iterable[float | None]) -> Values:
    known = [value for value in seconds if value is not None]
    return {f"aviato/{part}_seconds_p{percent}": percentile(known, percent) for percent in PERCENTILES}
