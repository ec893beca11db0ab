"""A reward function for any trainer: prompts and completions in, one number per completion out.

The function keeps the parts that a training run should share between batches (one job, one judge, one cache of
verdicts) and nothing else; everything else comes with a batch. Its arguments have TRL's shape, which other trainers
accept or can easily be adapted to: `f(prompts, completions, **columns)`, each a list with one entry per completion.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from sandrl import forks
from sandrl.addresses import check_address
from sandrl.answers.extraction import Extraction
from sandrl.bounds import LARGEST_WEIGHT, check_text, check_weight
from sandrl.closing import Closing
from sandrl.errors import InterruptedRunError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.calibration import packages_of
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits, check_limits
from sandrl.problems import Completion, Problem, ProblemsLike, as_problems
from sandrl.problems.case_choice import with_most_cases_each
from sandrl.remote.batch import request_options, score_with_service
from sandrl.remote.client import ADDRESS_HINT, ServiceClient
from sandrl.rewards.early import EarlyBatch
from sandrl.rewards.scoring import lifetime_seconds, longest_seconds, score_batch
from sandrl.runs.statistics import training_reward
from sandrl.sandboxes import Connection, Interrupt, Job, SandboxRequest, step_tag
from sandrl.scoring.batch import Batch, OnResult
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.combination import AsyncRewardFunction, CombinedRewards, TrainerReward, add_rewards
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.grading import Grading
from sandrl.scoring.opinions import OpinionMemory
from sandrl.scoring.options import ScoreOptions, SecondOpinion
from sandrl.scoring.policies import Components, RewardPolicy, as_policy
from sandrl.scoring.summary import ScoreReport, error_of, raise_for_rewards
from sandrl.scoring.trainer_batch import BatchReader, Text, step_tags
from sandrl.scoring.user_functions import check_picklable
from sandrl.settings import RuntimeKind, load_settings

OPINION_PATIENCE_SECONDS = 5.0
"""How long a batch of a trainer waits for second opinions after its last result."""


class OnInfrastructureError(StrEnum):
    """The value that a batch returns for a completion without a reward.

    Attributes:
        MASK: `None`, which TRL (from 1.6 on) leaves out of the step.
        ZERO: The fallback reward, for trainers that need a number.
        RAISE: An error, which ends the batch; but None if the reward policy has abstained.
    """

    MASK = "mask"
    ZERO = "zero"
    RAISE = "raise"


@dataclass(frozen=True, slots=True)
class FunctionOptions:
    """Options of a reward function.

    Attributes:
        fallback_reward: The value of `ZERO`.
        require_isolated: Never judge in the completion's process.
        warm_sandboxes: Maximum number of sandboxes to create ahead of the next batch, while the trainer generates its
            completions; never more than the last batch ran.
        others: Reward functions whose sum is added; if it is `None`, the whole reward is `None`.
    """

    score: ScoreOptions = field(default_factory=ScoreOptions)
    on_infrastructure_error: OnInfrastructureError = OnInfrastructureError.MASK
    fallback_reward: float = 0.0
    require_isolated: bool = False
    warm_sandboxes: int = 0
    others: CombinedRewards | None = None
    sandboxes: SandboxRequest = field(default_factory=SandboxRequest)
    service: str | None = None


def _tagged(context: ScoringContext, tags: tuple[str, ...]) -> ScoringContext:
    return replace(context, options=replace(context.options, tags=(*context.options.tags, *tags))) if tags else context


class RewardFunction(Closing):
    """Scores batches of a trainer.

    The first batch creates the job of its sandboxes. The job ends when the function is closed or the process exits.
    Calls from several threads wait for one another. A copy made by pickling has the same problems, options and verdict
    directory and creates a job of its own; it has no listeners and no interrupt.

    Args:
        job: A job whose sandboxes are used; the caller closes it. Without one, the function creates its own.
        interrupt: A request to stop, which ends a batch early.
        on_result: Called with each result as soon as it is known, and with its completion.

    Attributes:
        last_report: The report of the last batch; `None` before the first one.
    """

    def __init__(
        self,
        problems: Mapping[str, Problem],
        options: FunctionOptions | None = None,
        *,
        job: Job | None = None,
        cache: VerdictCache | None = None,
        emit: Emit = ignore,
        interrupt: Interrupt | None = None,
        on_result: Callable[[ScoredCompletion, Completion], None] | None = None,
    ) -> None:
        # Trainers name their columns after it.
        self.__name__ = "sandrl_reward"
        self.last_report: ScoreReport | None = None
        self._problems = as_problems(problems)
        self._options = options or FunctionOptions()
        self._reader = BatchReader(self._problems)
        self._job = job
        self._owns_job = job is None
        self._client: ServiceClient | None = None
        self._context: ScoringContext | None = None
        self._connection: Connection | None = None
        self._cache = VerdictCache() if cache is None else cache
        self._opinions: OpinionMemory = {}
        self._emit = emit
        self._interrupt = interrupt or Interrupt()
        self._on_result = on_result
        self._has_warned = False
        self._longest_seconds: float | None = None
        # Batches whose rewards were not asked for yet, the oldest first.
        self._begun: list[EarlyBatch] = []
        self._lock = threading.Lock()
        forks.watch(self)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for a copy in another process.

        Raises:
            UsageError: If a function of the user's cannot be pickled.
        """
        options = self._options
        check_picklable("`reward`", options.score.policy)
        if self._job is not None and not self._owns_job:
            connection, sandboxes = self._job.connection, options.sandboxes
            runtime, image = connection.named()
            packages = connection.packages.asked or sandboxes.packages
            given = replace(sandboxes, runtime=runtime, image=image, packages=packages)
            options = replace(options, sandboxes=given)
        return {"problems": self._problems, "options": options, "cache": self._cache.directory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        RewardFunction.__init__(self, state["problems"], state["options"], cache=VerdictCache(state["cache"]))

    def after_fork(self) -> None:
        """Leaves the job to the parent; a function that has not scored yet scores in the child as it would there."""
        self._lock = threading.Lock()
        if self._owns_job:
            self._job = None
        self._client = None
        self._begun = []
        atexit.unregister(self.close)

    def __call__(self, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any) -> list[float | None]:
        """Scores a batch of N rows.

        Args:
            columns: The other columns of the N rows. `task_id` names the problem of each row; without it, the problem
                with the row's prompt is used. `log_metric` (TRL) is called with the rates of the batch. `trainer_state`
                (TRL) gives the step, which becomes a tag of the sandboxes. `environments` (TRL): if one has a
                `submission`, it is judged instead of the completion, and if one has a `loss`, its reward is `None`.
                Other columns are ignored.

        Returns:
            N rewards, components included; `None` for a completion that could not be scored, or for which a component
            returned `None`.

        Raises:
            UsageError: If a row's problem is unknown, the reward policy fails for a completion, or the service rejects
                the request itself.
            ForkedProcessError: If this process was forked from one that had used sandboxes.
            InfrastructureError: If `on_infrastructure_error` is `raise`, and a completion has no reward.
            InterruptedRunError: If the batch was not finished because the user requested a stop.
            ServiceError: If there is no runtime.
        """
        rewards = self._scored(prompts, completions, columns)
        if self._options.others is None:
            return rewards
        return add_rewards(rewards, self._options.others(prompts, completions, **columns))

    def begin(self, step: int) -> EarlyBatch:
        """Begins a batch of a step whose completions are not known yet; `finish` returns its rewards."""
        with self._lock:
            job = self._job or self._open_job()
            context = _tagged(self._context_on(job.connection), (step_tag(step),))

            def make(emit: Emit, interrupt: Interrupt, on_result: OnResult) -> Batch:
                return Batch(job, context, self._cache, emit, interrupt, on_result, self._opinions)

            before = self._begun[-1] if self._begun else None
            batch = EarlyBatch(make, self._problems, interrupt=self._interrupt, emit=self._emit, after=before)
            self._begun.append(batch)
            return batch

    def complete(
        self,
        batch: EarlyBatch,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        task_ids: Sequence[str],
    ) -> None:
        """Hands over the N completions of a batch that was begun, as far as it does not have them."""
        batch.complete(self._reader.completions(prompts, completions, task_ids))

    def finish(
        self, batch: EarlyBatch, prompts: Sequence[Text], completions: Sequence[Text], **columns: Any
    ) -> list[float | None]:
        """Scores a batch that was begun; its arguments, results and errors are those of a call."""
        try:
            return self._scored(prompts, completions, columns, batch)
        finally:
            if batch in self._begun:  # else it was given up
                self._begun.remove(batch)
            batch.close()

    def abandon(self) -> None:
        """Gives up the batches that were begun."""
        while self._begun:
            self._begun.pop(0).close()

    def _scored(
        self,
        prompts: Sequence[Text],
        completions: Sequence[Text],
        columns: Mapping[str, Any],
        batch: EarlyBatch | None = None,
    ) -> list[float | None]:
        rows = self._reader.completions(prompts, completions, columns.get("task_id"), columns.get("environments"))
        with self._lock:
            if batch is None:
                for begun in self._begun:
                    begun.wait()
                report = self._score(rows, step_tags(columns.get("trainer_state")))
            else:
                report = batch.finish(rows, self._teller(rows))
            self.last_report = report
            self._warm_up(report)
        if report.unfinished:
            message = f"interrupted: {report.unfinished} of {len(rows)} completions of the batch were not scored"
            raise InterruptedRunError(message, signal_number=report.signal_number)
        raise_for_rewards(report.results)
        log_metric = columns.get("log_metric")
        if callable(log_metric):
            _log(report, log_metric)
            self._warn_of_others(log_metric)
        return [self._reward(result) for result in report.results]

    def as_async(self) -> AsyncRewardFunction:
        """Returns a coroutine function that does the same, for trainers that await rewards; it scores in a thread."""

        async def sandrl_reward(
            prompts: Sequence[Text], completions: Sequence[Text], **columns: Any
        ) -> list[float | None]:
            own = asyncio.to_thread(self._scored, prompts, completions, columns)
            if self._options.others is None:
                return await own
            return add_rewards(*await asyncio.gather(own, self._options.others.scored(prompts, completions, columns)))

        return sandrl_reward

    def _warn_of_others(self, log_metric: object) -> None:
        # TRL does not pass the other functions to a reward function; `log_metric` is a method of its trainer, which
        # has them.
        functions = getattr(getattr(log_metric, "__self__", None), "reward_funcs", ())
        is_masking = self._options.on_infrastructure_error is OnInfrastructureError.MASK
        if self._has_warned or not is_masking or not isinstance(functions, Sequence) or len(functions) < 2:
            return
        self._has_warned = True
        message = (
            "TRL has several reward functions, and adds the None of one of them as 0:"
            " a completion that cannot be scored gets the reward of a wrong answer"
        )
        hint = "give TRL one function: reward_function(components=[…]) or sandrl.combined_rewards(…)"
        if self._emit is ignore:
            warnings.warn(f"{message}; {hint}", stacklevel=3)
        else:
            self._emit(Warned(message, hint))

    def close(self) -> None:
        """Ends the job that the function created. It may be called more than once."""
        self.abandon()
        with self._lock:
            atexit.unregister(self.close)
            if self._owns_job and self._job is not None:
                self._job.close()
                self._job = None
            if self._client is not None:
                self._client.close()
                self._client = None

    def _score(self, rows: Sequence[Completion], tags: tuple[str, ...]) -> ScoreReport:
        if self._options.service is not None:
            return self._score_with(self._options.service, rows)
        job = self._job or self._open_job()
        context = _tagged(self._context_on(job.connection), tags)
        return score_batch(
            rows,
            self._problems,
            job,
            context,
            cache=self._cache,
            emit=self._emit,
            interrupt=self._interrupt,
            on_result=self._teller(rows),
            opinions=self._opinions,
        )

    def _context_on(self, connection: Connection) -> ScoringContext:
        # Verdicts are named by the runtime: the job may have moved to another one, or another job have followed it.
        if self._context is None or self._connection is not connection:
            require_isolated = self._options.require_isolated
            known = self._context
            judge = Judge.on(connection, require_isolated=require_isolated) if known is None else known.judge
            self._context = ScoringContext.of(self._options.score, judge, connection)
            self._connection = connection
        return self._context

    def _score_with(self, service: str, rows: Sequence[Completion]) -> ScoreReport:
        if self._client is None:
            self._client = ServiceClient(service)
            atexit.register(self.close)
        return score_with_service(
            rows,
            self._problems,
            self._client,
            request_options(self._options.score, require_isolated=self._options.require_isolated),
            self._options.score,
            emit=self._emit,
            interrupt=self._interrupt,
            on_result=self._teller(rows) or (lambda _: None),
        )

    def _teller(self, rows: Sequence[Completion]) -> OnResult | None:
        told = self._on_result
        return None if told is None else lambda result: told(result, rows[result.index])

    def _warm_up(self, report: ScoreReport) -> None:
        # The completions of the next batch will take a while to be written.
        most = self._options.warm_sandboxes
        if (
            most
            and not self._begun
            and report.summary.executions
            and self._job is not None
            and not self._interrupt.level
        ):
            count, options = min(report.summary.executions, most), self._options.score
            if self._longest_seconds is None:
                self._longest_seconds = longest_seconds(self._problems, options.limits)
            self._job.warm_up(count, tags=options.tags, timeout_seconds=self._longest_seconds)

    def _open_job(self) -> Job:
        sandboxes = self._options.sandboxes
        self._job = sandboxes.job(
            sandboxes.connect(load_settings(), needed=packages_of(self._problems.values()), emit=self._emit),
            command="reward_function",
            max_lifetime_seconds=lifetime_seconds(self._problems, self._options.score.limits),
            emit=self._emit,
        )
        atexit.register(self.close)
        return self._job

    def _reward(self, result: ScoredCompletion) -> float | None:
        reward = training_reward(result.reward, result.components)
        is_raising = self._options.on_infrastructure_error is OnInfrastructureError.RAISE
        if reward is not None or (result.status is Status.ABSTAINED and is_raising):
            return reward
        match self._options.on_infrastructure_error:
            case OnInfrastructureError.MASK:
                return None
            case OnInfrastructureError.ZERO:
                return self._options.fallback_reward
        raise error_of(result, hint="set on_infrastructure_error='mask' to leave such completions out")


def reward_function(
    problems: ProblemsLike,
    *,
    reward: str | RewardPolicy = "binary",
    components: Components | Sequence[Components | TrainerReward | tuple[TrainerReward, float]] | None = None,
    extraction: Extraction | str = Extraction.AUTO,
    limits: Limits | None = None,
    concurrency: int | None = None,
    max_sandboxes: int | None = None,
    sandbox_memory_bytes: int | None = None,
    warm_sandboxes: int = 0,
    retries: int = 2,
    max_cases: int | None = None,
    all_checks: bool = False,
    require_isolated: bool = False,
    second_opinion: float = 0.0,
    on_infrastructure_error: OnInfrastructureError | str = OnInfrastructureError.MASK,
    fallback_reward: float = 0.0,
    caching: bool = True,
    grading: Grading | None = None,
    cache: str | Path | None = None,
    runtime: str = RuntimeKind.AUTO,
    image: str | None = None,
    packages: Sequence[str] = (),
    tags: Sequence[str] = (),
    service: str | None = None,
    job: Job | None = None,
    emit: Emit = ignore,
) -> RewardFunction:
    """Creates a reward function for a trainer: `f(prompts, completions, **columns) -> list[float | None]`.

    Args:
        problems: Problems, or dictionaries like the rows of a problem file, as a mapping by `task_id` or as a list; or
            the source to load them from, as for `--problems`.
        reward: `binary`, `fraction`, `package.module:function`, `file.py:function`, or a function of a verdict and its
            completion.
        components: Rewards in addition to correctness. They are added to the reward, because a trainer uses one number.
            Either `Components` (weights for format, length and timeouts), or a list of `Components` and of reward
            functions in TRL's shape (plain or coroutine functions), each alone or as a pair `(function, weight)`. If
            one of the functions returns `None` for a completion, its whole reward is `None`.
        extraction: How the code is found in a completion.
        limits: Limits of a completion. Without them, the time of cases and calls that pass is not counted.
        concurrency: How many completions run at once; `None` chooses a number that suits the runtime.
        max_sandboxes: Maximum number of sandboxes at once, including those that are being stopped; `None` for no
            maximum.
        sandbox_memory_bytes: Memory of each sandbox; `None` for the runtime's default.
        warm_sandboxes: Maximum number of sandboxes to create ahead of the next batch, while the trainer generates its
            completions.
        retries: How often a completion is retried after its sandbox failed.
        max_cases: Use at most this many cases or calls of a problem, always the same ones; `None` uses all.
        all_checks: Continue with cases and calls after the first failed one, also with a binary reward.
        require_isolated: Give no reward (`None`) if the checks cannot be kept out of the completion's process.
        second_opinion: The share of failed isolated verdicts to judge again in plain Python, in one process, from 0 to
            1. It changes no reward; the opinions are sent to `emit` and are in `last_report`.
        on_infrastructure_error: The value for a completion without a reward: `mask` (`None`), `zero` (the fallback
            reward) or `raise` (an error).
        fallback_reward: The value of `zero`.
        caching: Judge identical completions once.
        grading: The model that grades answers; the grade is a component, and without one the whole reward is `None`.
        cache: Directory of verdicts and grades, kept from run to run; `None` keeps them in memory.
        runtime: The runtime of the sandboxes: `auto`, the name of a provider (`local`, `remote`, `daemonless`), or
            `ray`: a Ray cluster, at the address in `RAY_ADDRESS` or in `ray:ADDRESS`.
        image: Container image of the sandboxes; `None` for the runtime's default.
        packages: Python packages that the code may import, as pip writes requirements; they are installed once.
        tags: Tags of every sandbox.
        service: Address of a `sandrl serve` that scores instead of local sandboxes; its token is read from
            `SANDRL_SERVICE_TOKEN`. It cannot be combined with `job`, `cache`, `second_opinion`, or options of the
            sandboxes.
        job: A job whose sandboxes are used; the caller closes it. Without one, the first batch creates a job.
        emit: Receives events.

    Returns:
        The reward function. Use it as a context manager, or call `close()`, to stop its sandboxes early.

    Raises:
        UsageError: If an option is not valid, or the problems cannot be loaded.
    """
    policy = as_policy(reward)
    limits = Limits(is_extended=True) if limits is None else limits
    if not isinstance(limits, Limits):
        raise UsageError(f"limits must be a sandrl.rewards.Limits or None, not {limits!r:.60}")
    check_limits(limits)
    check_weight("fallback_reward", fallback_reward, least=-LARGEST_WEIGHT)
    check_text("cache", None if cache is None else str(cache))
    weights, others = _components(components)
    if grading is not None and grading.cache is None and cache is not None:
        grading = replace(grading, cache=Path(cache))
    options = ScoreOptions(
        extraction=_word(Extraction, extraction, "extraction"),
        limits=limits,
        concurrency=concurrency,
        retries=retries,
        policy=policy,
        components=weights,
        caching=caching,
        second_opinion=step_opinions(second_opinion),
        all_checks=all_checks,
        grading=grading,
    )
    if service is not None:
        check_address(service, "service", hint=ADDRESS_HINT)
        request_options(options)
        own = {
            "cache": cache,
            "grading": grading,
            "second_opinion": second_opinion,
            "job": job,
            "image": image,
            "packages": packages,
        }
        own |= {"tags": tags, "max_sandboxes": max_sandboxes, "sandbox_memory_bytes": sandbox_memory_bytes}
        used = [name for name, value in own.items() if value]
        if used:
            raise UsageError(f"`{used[0]}` has no effect with `service`, which runs the sandboxes; leave it out")
    return RewardFunction(
        with_most_cases_each(as_problems(problems), max_cases),
        FunctionOptions(
            score=options,
            on_infrastructure_error=_word(OnInfrastructureError, on_infrastructure_error, "on_infrastructure_error"),
            fallback_reward=fallback_reward,
            require_isolated=require_isolated,
            warm_sandboxes=warm_sandboxes,
            others=others,
            sandboxes=SandboxRequest(
                runtime=runtime,
                image=image,
                packages=_words("packages", packages),
                tags=_words("tags", tags),
                max_sandboxes=max_sandboxes,
                memory_bytes=sandbox_memory_bytes,
            ),
            service=service,
        ),
        job=job,
        cache=VerdictCache(None if cache is None else Path(cache)),
        emit=emit,
    )


def step_opinions(rate: float) -> SecondOpinion:
    """Options of second opinions for a trainer's batch, with a limited wait.

    Raises:
        UsageError: If the rate is not a number from 0 to 1.
    """
    wanted = SecondOpinion(rate, patience_seconds=OPINION_PATIENCE_SECONDS)
    wanted.check()
    return wanted


_Word = TypeVar("_Word", bound=StrEnum)


def _word(kind: type[_Word], text: str, name: str) -> _Word:
    try:
        return kind(text)
    except ValueError:
        words = ", ".join(kind)
        raise UsageError(f"{name} is {text!r}, which is not one of {words}") from None


def _words(name: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise UsageError(f"{name} must be a list of strings, not {given!r:.60}")
    return tuple(given)


def _components(
    given: Components | Sequence[Components | TrainerReward | tuple[TrainerReward, float]] | None,
) -> tuple[Components, CombinedRewards | None]:
    if given is None or isinstance(given, Components):
        return given or Components(), None
    if not isinstance(given, list | tuple):
        raise UsageError(f"components must be a sandrl.rewards.Components, a list or None, not {given!r:.60}")
    weights = [each for each in given if isinstance(each, Components)]
    functions = [each for each in given if not isinstance(each, Components)]
    if len(weights) > 1:
        raise UsageError("components has sandrl.rewards.Components more than once")
    own = weights[0] if weights else Components()
    return own, CombinedRewards(functions) if functions else None


def _log(report: ScoreReport, log_metric: Callable[[str, float], None]) -> None:
    summary = report.summary
    values = {"pass_rate": summary.pass_rate, "unscorable": summary.unscorable, "hit_rate": summary.hit_rate}
    for name, value in values.items():
        if value is not None:
            log_metric(f"sandrl/{name}", float(value))
    if summary.second_opinion is not None:
        log_metric("sandrl/disagreements", float(summary.second_opinion.disagreements))
