"""The totals of a set of completions: the only place where completions are counted.

Results of a running job and rows of a stored run have the same field names, so one function counts both, and the
summary of a command and the metrics of its steps cannot disagree. Rates are relative to the scored completions. A
completion whose sandbox failed is neither right nor wrong; counting it either way would make a failure of the
infrastructure look like a change of the model.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from sandrl.events import ScoredCompletion, Status
from sandrl.runs.reader import SlimRow
from sandrl.runs.rows import TrajectoryRow
from sandrl.runs.statistics import Estimate, deviation, estimate, mean, pass_at_k, training_reward

Values: TypeAlias = dict[str, float | None]
FinishedCompletion: TypeAlias = ScoredCompletion | TrajectoryRow | SlimRow

_PASS_AT = (1, 5, 10, 100)


@dataclass(frozen=True, slots=True)
class OpinionTotals:
    """What the second opinions of a set of completions amount to.

    Attributes:
        rate: The share of failed isolated verdicts that was to be judged again.
        asked: How many failed completions were.
        disagreements: How many of these pass in one process.
        unavailable: For how many there is no opinion, because its sandbox failed.
    """

    rate: float
    asked: int
    disagreements: int
    unavailable: int

    @property
    def answered(self) -> int:
        """For how many there is an opinion."""
        return self.asked - self.unavailable

    @property
    def metrics(self) -> Values:
        """The metrics of second opinions; none where none was asked for."""
        if not self.asked:
            return {}
        return {
            "judge/second_opinions": float(self.asked),
            "judge/disagreements": float(self.disagreements),
            "judge/unavailable_opinions": float(self.unavailable),
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """The totals of a set of scored completions.

    Attributes:
        n: How many completions.
        scored: How many of them have a reward.
        unscorable: How many have none because they could not be scored.
        abstained: How many have none because the reward function gave none.
        total_reward: Sum of the rewards.
        passed: How many passed every check.
        pass_rate: Passed by scored; None if none was scored.
        pass_at: k to the estimate of pass@k over problems with at least k scored completions.
        reward_deviation: Standard deviation of the rewards; None if none was scored.
        groups: How many problems have at least two scored completions: what GRPO compares with one another.
        zero_variance_groups: In how many of these all rewards, with their components, are the same.
        by_status: What happened, to how many.
        truncated: How many printed more than was kept.
        answers_with_reason: Of how many it is known why the model's answer ended.
        truncated_answers: How many of these were cut off at a token limit.
        unscorable_by_status: Why they could not be scored, to how many.
        no_code: How many had nothing to run.
        cache_hits: How many got the verdict of an identical one.
        executed: How many were run.
        executions: In how many sandboxes these were run.
        retries: How many executions followed one that failed.
        reruns: How many executions were repeated for another reason.
        canaries: How often a known-good program was run.
        isolation: How completions that were run were isolated, to how many.
        components: Mean of each component over the completions that have it.
        training_reward: Mean of what is trained on, rewards with their components; None without components.
        training_deviation: Their standard deviation; None without components.
        second_opinion: What the second opinions amount to; None if none were to be asked for.
        hash_seed_dependent: How many have another outcome under another hash seed; None if they were judged under
            one seed.
    """

    n: int
    scored: int
    unscorable: int
    total_reward: float
    passed: int
    pass_rate: float | None
    pass_at: dict[int, Estimate]
    reward_deviation: float | None = None
    groups: int = 0
    zero_variance_groups: int = 0
    by_status: dict[str, int] = field(default_factory=dict)
    abstained: int = 0
    truncated: int = 0
    answers_with_reason: int = 0
    truncated_answers: int = 0
    unscorable_by_status: dict[str, int] = field(default_factory=dict)
    no_code: int = 0
    cache_hits: int = 0
    executed: int = 0
    executions: int = 0
    retries: int = 0
    reruns: int = 0
    canaries: int = 0
    isolation: dict[str, int] = field(default_factory=dict)
    components: dict[str, float] = field(default_factory=dict)
    training_reward: float | None = None
    training_deviation: float | None = None
    second_opinion: OpinionTotals | None = None
    hash_seed_dependent: int | None = None

    @property
    def infrastructure(self) -> int:
        """How many have no reward because the runtime failed them."""
        return self.unscorable_by_status.get(Status.INFRASTRUCTURE.value, 0)

    @property
    def truncated_share(self) -> float | None:
        """Truncated answers by those of which it is known why they ended; None if that is known of none."""
        return self.truncated_answers / self.answers_with_reason if self.answers_with_reason else None

    @property
    def pass_at_k(self) -> dict[int, float]:
        """The estimate of pass@k by k, without its interval."""
        return {k: found.value for k, found in self.pass_at.items()}

    @property
    def hit_rate(self) -> float | None:
        """Cache hits by completions that had code; None if none had."""
        with_code = self.executed + self.cache_hits
        return self.cache_hits / with_code if with_code else None

    @property
    def metrics(self) -> Values:
        """The metrics of completions that belong together: those of a step, or of a run without steps."""
        return {
            "reward/mean": self.total_reward / self.scored if self.scored else None,
            "reward/std": self.reward_deviation,
            "reward/total": self.total_reward,
            "reward/groups": float(self.groups),
            "reward/zero_variance_groups": float(self.zero_variance_groups),
            "pass_rate": self.pass_rate,
            **{name: value for k, found in self.pass_at.items() for name, value in named(f"pass@{k}", found).items()},
            **{f"component/{name}": value for name, value in self.components.items()},
            **self._of_training(),
            "completions": float(self.n),
            "scored": float(self.scored),
            "unscorable": float(self.unscorable),
            "unscorable_share": self.unscorable / self.n if self.n else None,
            **({"abstained": float(self.abstained)} if self.abstained else {}),
            **{f"status/{status}": float(count) for status, count in sorted(self.by_status.items())},
            "no_code": float(self.no_code),
            **self._of_answers(),
            "cache_hits": float(self.cache_hits),
            "hit_rate": self.hit_rate,
            "executed": float(self.executed),
            "executions": float(self.executions),
            "retries": float(self.retries),
            "reruns": float(self.reruns),
            "canaries": float(self.canaries),
        }

    def _of_answers(self) -> Values:
        share = self.truncated_share
        if share is None:
            return {}
        return {"truncated_answers": float(self.truncated_answers), "completions/clipped_ratio": share}

    def _of_training(self) -> Values:
        if not self.components:
            return {}
        return {"training_reward/mean": self.training_reward, "training_reward/std": self.training_deviation}


def summarise(
    results: Sequence[FinishedCompletion], *, opinion_rate: float = 0.0, hash_seed_dependent: int | None = None
) -> Summary:
    """The totals of some completions, of whose failed isolated verdicts this share was to be judged again."""
    scored = [result for result in results if result.reward is not None]
    rewards = [result.reward for result in scored if result.reward is not None]
    trained = [number for each in scored if (number := training_reward(each.reward, each.components)) is not None]
    components = _components(scored)
    passed = [result.is_pass for result in scored]
    groups = groups_of(scored)
    by_status = Counter(str(result.status) for result in results)
    without = Counter(str(result.status) for result in results if result.reward is None)
    abstained = without.pop(Status.ABSTAINED.value, 0)
    opinions = [result.second_opinion.status for result in results if result.second_opinion is not None]
    return Summary(
        n=len(results),
        scored=len(scored),
        unscorable=without.total(),
        total_reward=math.fsum(rewards),
        passed=sum(passed),
        pass_rate=mean(passed),
        pass_at=pass_at(scored),
        reward_deviation=deviation(rewards),
        groups=len(groups),
        zero_variance_groups=sum(min(rewards_G) == max(rewards_G) for rewards_G in groups.values()),
        by_status=dict(by_status),
        abstained=abstained,
        truncated=sum(result.truncated for result in results),
        answers_with_reason=sum(result.finish_reason is not None for result in results),
        truncated_answers=sum(result.is_cut_off for result in results),
        unscorable_by_status=dict(without),
        no_code=by_status[Status.NO_CODE],
        cache_hits=sum(result.cached for result in results),
        executed=sum(result.sandboxes > 0 for result in results),
        executions=sum(result.sandboxes for result in results),
        retries=sum(result.retries for result in results),
        reruns=sum(result.reruns for result in results),
        canaries=sum(result.canaries for result in results),
        isolation=dict(sorted(Counter(str(each.isolation) for each in results if each.isolation is not None).items())),
        components=components,
        training_reward=mean(trained) if components else None,
        training_deviation=deviation(trained) if components else None,
        second_opinion=count_opinions(opinions, opinion_rate) if opinion_rate else None,
        hash_seed_dependent=hash_seed_dependent,
    )


def count_opinions(statuses: Sequence[str], rate: float = 1.0) -> OpinionTotals:
    """What second opinions amount to, by the status of each in one process: `infrastructure` where there is none."""
    counts = Counter(map(str, statuses))
    return OpinionTotals(rate, len(statuses), counts[Status.PASSED], counts[Status.INFRASTRUCTURE])


def completion_metrics(completions: Sequence[FinishedCompletion]) -> Values:
    """The metrics of completions that belong together."""
    return summarise(completions).metrics


def opinion_metrics(statuses: Sequence[str]) -> Values:
    """The metrics of second opinions, by what came of each."""
    return count_opinions(statuses).metrics


def groups_of(completions: Iterable[FinishedCompletion]) -> dict[str, list[float]]:
    """What is trained on of each problem with at least two scored completions: what GRPO compares with one another."""
    rewards: defaultdict[str, list[float]] = defaultdict(list)
    for each in completions:
        number = training_reward(each.reward, each.components)
        if number is not None:
            rewards[each.task_id].append(number)
    return {task_id: rewards_G for task_id, rewards_G in rewards.items() if len(rewards_G) > 1}


def named(name: str, found: Estimate | None) -> Values:
    """An estimate and the bounds of its interval (`NAME_low`, `NAME_high`) as metrics; without one, all are None."""
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def pass_at(scored: Iterable[FinishedCompletion]) -> dict[int, Estimate]:
    """The estimate of pass@k by k, as far as some problem has that many scored completions; others are left out."""
    tries: defaultdict[str, list[bool]] = defaultdict(list)
    for each in scored:
        if each.reward is not None:
            tries[each.task_id].append(each.is_pass)
    return pass_at_of([(len(each), sum(each)) for each in tries.values()])


def pass_at_of(counts: Sequence[tuple[int, int]]) -> dict[int, Estimate]:
    """The same, from the numbers of scored and of passed completions of each problem."""
    estimates = {}
    for k in _PASS_AT:
        enough = [(n, c) for n, c in counts if n >= k]
        found = estimate([pass_at_k(n, c, k) for n, c in enough], tries=sum(n // k for n, _ in enough))
        if found is not None:
            estimates[k] = found
    return estimates


def pass_at_document(found: Mapping[int, Estimate]) -> dict[str, Any]:
    """Estimates of pass@k, and their intervals, as every document has them."""
    return {
        "pass_at_k": {str(k): each.value for k, each in found.items()},
        "pass_at_k_intervals": {str(k): asdict(each) for k, each in found.items()},
    }


def _components(scored: Iterable[FinishedCompletion]) -> dict[str, float]:
    by_name: defaultdict[str, list[float]] = defaultdict(list)
    for each in scored:
        for name, value in each.components.items():
            by_name[name].append(value)
    return {name: math.fsum(values) / len(values) for name, values in by_name.items()}
