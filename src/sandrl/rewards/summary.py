"""What a set of scored completions amounts to.

The design decision: rates divide by what could be scored. A completion whose sandbox failed is neither right nor wrong;
counting it either way would make a bad day of the infrastructure look like a change of the model.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sandrl.errors import UsageError
from sandrl.rewards.verdict import CheckVerdict, Status, Trust
from sandrl.runs import pass_at_k as pass_at_k


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a completion does in plain Python, in one process, after it failed where its checks are kept apart.

    Attributes:
        status: What happened; `infrastructure` if there is no opinion because its sandbox failed.
        detail: Why, in one line; partly the model's words.
        sandbox_id: Where it ran; None if there was no sandbox.
        sandboxes: How many it was run in; 0 if this is the opinion on an identical completion.
    """

    status: Status
    detail: str = ""
    sandbox_id: str | None = None
    sandboxes: int = 1

    @property
    def is_disagreement(self) -> bool:
        """Whether the failed completion passes in one process."""
        return self.status is Status.PASSED

    @property
    def is_available(self) -> bool:
        """Whether there is an opinion."""
        return self.status is not Status.INFRASTRUCTURE


@dataclass(frozen=True, slots=True)
class ScoredCompletion:
    """A completion, what happened to it, and what it earned.

    Attributes:
        index: Position in the input, from 0.
        id: The completion's own id.
        task_id: The problem it answers.
        reward: What the reward policy gives; None where nothing can be said about the code.
        status: What happened.
        trust: How far that can be believed; None if nothing ran.
        passed: Checks passed.
        total: Checks there are.
        duration_seconds: From handing it over to its verdict, the start of the sandbox included.
        sandbox_id: Where it ran; None if nothing ran.
        detail: Why, in one line; partly the model's words.
        sandboxes: How many it was run in, the canary's not counted; 0 if it did not run itself.
        retries: How many of these followed one that failed.
        reruns: How many were for another reason: to judge the completion in one process.
        canaries: How often a known-good program was run to find out whom to blame.
        failures: What went wrong with sandboxes, oldest first.
        cached: Whether the verdict is that of an identical completion.
        components: What it earned besides the reward, by name; not part of it.
        cpu_seconds: How long it was on a processor.
        code: What was extracted and run; None if there was none.
        stdout: What it printed, as much as was kept.
        stderr: What it printed as errors, as much as was kept.
        truncated: Whether it printed more than was kept.
        checks: What happened in each check, in their order; empty where that is not known.
        second_opinion: What it does in one process; None if that was not asked.
        why_in_process: Of one judged in one process, how it failed apart from its checks before; empty if not tried.
    """

    index: int
    id: str
    task_id: str
    reward: float | None
    status: Status
    trust: Trust | None
    passed: int
    total: int
    duration_seconds: float
    sandbox_id: str | None
    detail: str
    sandboxes: int = 0
    retries: int = 0
    reruns: int = 0
    canaries: int = 0
    failures: tuple[str, ...] = ()
    cached: bool = False
    components: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    code: str | None = field(default=None, repr=False)
    stdout: str = field(default="", repr=False)
    stderr: str = field(default="", repr=False)
    truncated: bool = False
    checks: tuple[CheckVerdict, ...] = field(default=(), repr=False)
    second_opinion: Opinion | None = None
    why_in_process: str = ""

    @property
    def is_pass(self) -> bool:
        """Whether every check passed, and there was one."""
        return self.status is Status.PASSED and self.passed == self.total > 0


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


@dataclass(frozen=True, slots=True)
class Summary:
    """The totals of a set of scored completions.

    Attributes:
        n: How many completions.
        scored: How many of them have a reward.
        unscorable: How many have none.
        total_reward: Sum of the rewards.
        passed: How many passed every check.
        pass_rate: Passed by scored; None if none was scored.
        pass_at_k: k to the estimate of pass@k over problems with at least k scored completions.
        truncated: How many printed more than was kept.
        unscorable_by_status: Why they have none, to how many.
        no_code: How many had nothing to run.
        cache_hits: How many got the verdict of an identical one.
        executed: How many were run.
        executions: In how many sandboxes these were run.
        retries: How many executions followed one that failed.
        reruns: How many executions were repeated for another reason.
        canaries: How often a known-good program was run.
        components: Mean of each component over the completions that have it.
        second_opinion: What the second opinions amount to; None if none were to be asked for.
    """

    n: int
    scored: int
    unscorable: int
    total_reward: float
    passed: int
    pass_rate: float | None
    pass_at_k: dict[int, float]
    truncated: int = 0
    unscorable_by_status: dict[str, int] = field(default_factory=dict)
    no_code: int = 0
    cache_hits: int = 0
    executed: int = 0
    executions: int = 0
    retries: int = 0
    reruns: int = 0
    canaries: int = 0
    components: dict[str, float] = field(default_factory=dict)
    second_opinion: OpinionTotals | None = None

    @property
    def infrastructure(self) -> int:
        """How many have no reward because the runtime failed them."""
        return self.unscorable_by_status.get(Status.INFRASTRUCTURE.value, 0)

    @property
    def hit_rate(self) -> float | None:
        """Cache hits by completions that had code; None if none had."""
        with_code = self.executed + self.cache_hits
        return self.cache_hits / with_code if with_code else None


def summarise(
    results: Sequence[ScoredCompletion], *, ks: Iterable[int] = (1, 5, 10, 100), opinion_rate: float = 0.0
) -> Summary:
    """The totals of some scored completions.

    Args:
        results: The completions.
        ks: The k to estimate pass@k for, as far as some problem has that many scored completions.
        opinion_rate: The share of failed isolated verdicts that was to be judged again.
    """
    scored = [result for result in results if result.reward is not None]
    passes: defaultdict[str, list[bool]] = defaultdict(list)
    for result in scored:
        passes[result.task_id].append(result.is_pass)
    estimates: dict[int, float] = {}
    for k in ks:
        enough = [pass_at_k(len(tries), sum(tries), k) for tries in passes.values() if len(tries) >= k]
        if enough:
            estimates[k] = math.fsum(enough) / len(enough)
    passed = sum(result.is_pass for result in scored)
    return Summary(
        n=len(results),
        scored=len(scored),
        unscorable=len(results) - len(scored),
        total_reward=math.fsum(result.reward for result in scored if result.reward is not None),
        passed=passed,
        pass_rate=passed / len(scored) if scored else None,
        pass_at_k=estimates,
        truncated=sum(result.truncated for result in results),
        unscorable_by_status=dict(Counter(result.status.value for result in results if result.reward is None)),
        no_code=sum(result.status is Status.NO_CODE for result in results),
        cache_hits=sum(result.cached for result in results),
        executed=sum(result.sandboxes > 0 for result in results),
        executions=sum(result.sandboxes for result in results),
        retries=sum(result.retries for result in results),
        reruns=sum(result.reruns for result in results),
        canaries=sum(result.canaries for result in results),
        components=_mean_components(scored),
        second_opinion=_opinion_totals(results, opinion_rate) if opinion_rate else None,
    )


def raise_for_rewards(results: Sequence[ScoredCompletion]) -> None:
    """Raises what a reward policy did wrong, when the results are safe.

    Raises:
        UsageError: If it failed for one of them.
    """
    failed = [result for result in results if result.status is Status.REWARD_ERROR]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(results)} completions have no reward: {failed[0].detail}",
            hint="correct the function that --reward names; `sandrl runs regrade` calls it for the saved completions",
        )


def _opinion_totals(results: Iterable[ScoredCompletion], rate: float) -> OpinionTotals:
    opinions = [result.second_opinion for result in results if result.second_opinion is not None]
    return OpinionTotals(
        rate,
        asked=len(opinions),
        disagreements=sum(opinion.is_disagreement for opinion in opinions),
        unavailable=sum(not opinion.is_available for opinion in opinions),
    )


def _mean_components(results: Iterable[ScoredCompletion]) -> dict[str, float]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        for name, value in result.components.items():
            values[name].append(value)
    return {name: math.fsum(each) / len(each) for name, each in values.items()}


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """What came of scoring.

    Attributes:
        job_id: The job whose sandboxes were used.
        results: In input order; without those that a wish to stop left unfinished.
        summary: Their totals.
        unfinished: How many completions have no result.
        signal_number: The signal that asked to stop; 0 if none did.
    """

    job_id: str
    results: tuple[ScoredCompletion, ...]
    summary: Summary
    unfinished: int = 0
    signal_number: int = 0
