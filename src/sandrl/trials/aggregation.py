"""The verdict of a trial, from what became of its steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sandrl.events.results import CheckStatus, CheckVerdict, Status, Trust
from sandrl.judge.verdict import Verdict
from sandrl.problems.tasks.task import RewardStrategy, TaskStep
from sandrl.trials.reward_files import score_of
from sandrl.trials.verification import Failure, Reading


@dataclass(frozen=True, slots=True)
class StepEnd:
    """What became of a step: rewards, or why the agent's state has none."""

    step: TaskStep
    reading: Reading | Failure

    @property
    def rewards(self) -> Mapping[str, float]:
        return self.reading.rewards if isinstance(self.reading, Reading) else {}

    @property
    def is_too_low(self) -> bool:
        """Whether a reward is below what the next step needs."""
        return any(self.rewards.get(name, -math.inf) < threshold for name, threshold in self.step.min_reward)


def verdict_of(
    ends: Sequence[StepEnd], strategy: RewardStrategy, trust: Trust, remarks: Sequence[str], *, has_steps: bool
) -> Verdict:
    """The verdict of a trial.

    Args:
        ends: Those of the steps that were begun; at least one.
        remarks: What is said besides, each in one line.
        has_steps: Whether checks have the names of their steps before their own.
    """
    rewards = _aggregate([end.rewards for end in ends], strategy)
    score = score_of(rewards)
    status = Status.PASSED if score >= 1 else Status.FAILED
    checks = tuple(
        replace(check, name=f"{end.step.name}: {check.name}") if has_steps else check
        for end in ends
        for check in end.reading.checks
    )
    failed = [check for check in checks if check.status not in (CheckStatus.PASSED, CheckStatus.NOT_RUN)]
    counted = sum(check.status is not CheckStatus.NOT_RUN for check in checks)
    passed, total = counted - len(failed), counted
    if not counted or (status is Status.PASSED and failed):
        passed, total = int(status is Status.PASSED), 1
    last = ends[-1].reading
    return Verdict(
        status,
        trust,
        passed,
        total,
        "; ".join(each for each in (_reason(score, ends, failed, counted), *remarks) if each),
        stdout=last.output,
        stdout_bytes=len(last.output),
        truncated=last.is_cut,
        checks=checks,
        score=score,
        scores=dict(rewards) if rewards.keys() != {"reward"} else {},
    )


def _reason(score: float, ends: Sequence[StepEnd], failed: Sequence[CheckVerdict], counted: int) -> str:
    # Why, in one line; the first broken verifier, or the first test that failed.
    for end in ends:
        if isinstance(end.reading, Failure):
            return f"step {end.step.name}: {end.reading.reason}" if end.step.name else end.reading.reason
    if not failed:
        return "" if score >= 1 else f"the verifier gave {score:g}"
    first = f"{failed[0].name}: {failed[0].detail}" if failed[0].detail else failed[0].name
    told = f"{len(failed)} of {counted} tests failed; the first: {first}"
    return f"the verifier gave {score:g}, although {told}" if score >= 1 else told


def _aggregate(rewards: Sequence[Mapping[str, float]], strategy: RewardStrategy) -> Mapping[str, float]:
    """The rewards of a trial, by name, from those of its steps; a step without a name counts as 0 under it."""
    names = dict.fromkeys(name for each in rewards for name in each) or {"reward": None}
    counted = rewards[-1:] if strategy is RewardStrategy.FINAL else rewards
    if strategy is RewardStrategy.FINAL and counted[0]:
        return counted[0]
    return {name: math.fsum(each.get(name, 0.0) for each in counted) / len(counted) for name in names}
