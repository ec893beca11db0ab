"""Scores completions in one call, and creates the job, judge and cache that the caller does not pass.

A job, a judge and a cache may outlive a batch of completions, so the caller may pass its own; the batch itself
(`batch.py`) is created for every call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from sandrl.events import Emit, all_of, ignore
from sandrl.events.results import Status
from sandrl.judge.calibration import packages_of
from sandrl.judge.judge import Judge, longest_execution_seconds, longest_run_seconds
from sandrl.judge.limits import Limits
from sandrl.problems import Completion, CompletionsLike, Problem, ProblemsLike, as_completions, as_problems
from sandrl.runs import HASH_SEED_TAG
from sandrl.sandboxes import Interrupt, Job, SandboxRequest
from sandrl.scoring.batch import Batch, OnResult
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.context import ScoringContext
from sandrl.scoring.notebook import is_notebook, shown_progress
from sandrl.scoring.opinions import OpinionMemory
from sandrl.scoring.options import ScoreOptions, SecondOpinion
from sandrl.scoring.summary import ScoreReport
from sandrl.settings import load_settings
from sandrl.trials.trial import Agent

# Enough for a sandbox to be created and stopped in, however busy the runtime is.
_LIFETIME_MARGIN_SECONDS = 300.0


def lifetime_seconds(problems: Mapping[str, Problem], limits: Limits) -> float:
    """Maximum lifetime of a sandbox, after which the service ends it even if the job has failed."""
    return longest_seconds(problems, limits) + _LIFETIME_MARGIN_SECONDS


def longest_seconds(problems: Mapping[str, Problem], limits: Limits) -> float:
    """The longest wall time that a completion of any of these problems may take if processors are scarce."""
    longest = (longest_execution_seconds(problem, limits) for problem in problems.values())
    return max(longest, default=longest_run_seconds(limits.timeout_seconds))


def score(
    completions: CompletionsLike,
    problems: ProblemsLike,
    *,
    job: Job | None = None,
    judge: Judge | None = None,
    options: ScoreOptions | None = None,
    cache: VerdictCache | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
    on_result: OnResult | None = None,
    opinions: OpinionMemory | None = None,
    keeps_output: bool = True,
    progress: bool | None = None,
) -> ScoreReport:
    """Judges completions, each in a cell of a worker sandbox or in a fresh sandbox, and computes their rewards.

    Args:
        completions: The completions to score; each one names its problem. A list of `Completion` or of dictionaries
            like the rows of a completion file, or the path of such a file.
        problems: Problems, or dictionaries like the rows of a problem file, as a mapping by `task_id` or as a list; or
            the source to load them from.
        job: A job whose sandboxes are used; the caller closes it. Without one, a job is created on the runtime that the
            environment selects, and closed at the end.
        judge: Judges the completions; an `Judge` by default.
        options: How to score.
        cache: Known verdicts, and where new ones are kept; a new one by default.
        emit: Receives events.
        interrupt: A request to stop.
        on_result: Called with each result as soon as it is known. Second opinions come later, and are in the report.
        opinions: Second opinions of earlier batches, and where new ones are kept, so that identical completions of
            several batches are judged again once; by default of this batch only.
        keeps_output: Whether the results of the report contain code and output of the completions; the results
            that `on_result` gets always contain them. Without it, memory is bounded by the completions in flight.
        progress: Whether to show progress: in a notebook below the cell, elsewhere as lines on standard error. By
            default only in a notebook, and only without `job`.

    Returns:
        All results in input order, and their totals.

    Raises:
        InputError: If a problem or a completion is not valid, or a completion names a problem that is not given.
        AuthenticationError: If the service rejects the credentials.
        UsageError: If an option is not valid, or the service rejects the request itself.
    """
    problems = as_problems(problems)
    completions = as_completions(completions, problems)
    options = options or ScoreOptions()
    options.second_opinion.check()
    with ExitStack() as stack:
        if progress or (progress is None and job is None and is_notebook()):
            emit = all_of(emit, stack.enter_context(shown_progress()))
        if job is None:
            sandboxes = SandboxRequest()
            connection = sandboxes.connect(load_settings(), needed=packages_of(problems.values()), emit=emit)
            lifetime = lifetime_seconds(problems, options.limits)
            own = sandboxes.job(connection, command="score", max_lifetime_seconds=lifetime, emit=emit)
            job = stack.enter_context(own)
        return score_batch(
            completions,
            problems,
            job,
            ScoringContext.of(options, judge or Judge.on(job.connection), job.connection),
            cache=cache,
            emit=emit,
            interrupt=interrupt,
            on_result=on_result,
            opinions=opinions,
            keeps_output=keeps_output,
        )


def score_batch(
    completions: Sequence[Completion],
    problems: Mapping[str, Problem],
    job: Job,
    context: ScoringContext,
    *,
    cache: VerdictCache | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
    on_result: OnResult | None = None,
    opinions: OpinionMemory | None = None,
    keeps_output: bool = True,
    keeps_results: bool = True,
    agents: Sequence[Agent | None] = (),
) -> ScoreReport:
    """Scores completions of known problems in a job; see `score`, which makes what its caller does not have.

    Args:
        keeps_results: Whether the report has results; without them, memory does not grow with the batch.
        agents: Who acts for each completion of a task; without them, the completions are patches, scripts and states.
    """
    cache = VerdictCache() if cache is None else cache
    interrupt = interrupt or Interrupt()
    seeds: dict[int, dict[str, str]] = {}
    if context.options.hash_seeds > 1:
        seeds = _outcomes_by_seed(completions, problems, job, context, cache, interrupt)
    batch = Batch(
        job,
        context,
        cache,
        emit,
        interrupt,
        on_result,
        opinions,
        keeps_output=keeps_output,
        keeps_results=keeps_results,
        hash_seeds=seeds,
    )
    if agents:
        for completion, agent in zip(completions, agents, strict=True):
            batch.add(completion, problems, agent=agent)
    else:
        batch.add_all(completions, problems)
    return batch.run()


def _outcomes_by_seed(
    completions: Sequence[Completion],
    problems: Mapping[str, Problem],
    job: Job,
    context: ScoringContext,
    cache: VerdictCache,
    interrupt: Interrupt,
) -> dict[int, dict[str, str]]:
    # The outcomes under the hash seeds after the first, by positions and by seed; one that says nothing of the
    # completion is left out. They are judged before the first seed, whose reward counts, so that a result has all of
    # its outcomes when it is given. Each has a judge of its own: a seed also changes what a reference returns.
    found: dict[int, dict[str, str]] = {}
    options = context.options
    first = options.limits.hash_seed
    for seed in range(first + 1, first + options.hash_seeds):
        under = replace(
            options,
            limits=replace(options.limits, hash_seed=seed),
            second_opinion=SecondOpinion(),
            tags=(HASH_SEED_TAG, *options.tags),
        )
        judge = Judge.on(job.connection, require_isolated=context.judge.requires_isolated)
        own = ScoringContext.of(under, judge, job.connection)
        batch = Batch(job, own, cache, ignore, interrupt, None, keeps_output=False)
        batch.add_all(completions, problems)
        for result in batch.run().results:
            if result.status is not Status.INFRASTRUCTURE:
                found.setdefault(result.index, {})[str(seed)] = result.status.value
    return found
