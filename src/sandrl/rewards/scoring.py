"""Scores completions in one call, and creates the job, judge and cache that the caller does not pass.

A job, a judge and a cache may outlive a batch of completions, so the caller may pass its own; the batch itself
(`batch.py`) is created for every call.
"""

from __future__ import annotations

from collections.abc import Mapping

from sandrl.events import Emit, ignore
from sandrl.problems import CompletionsLike, Problem, ProblemsLike, as_completions, as_problems
from sandrl.rewards.batch import Batch, OnResult
from sandrl.rewards.cache import VerdictCache
from sandrl.rewards.judge import IsolatedJudge, Judge, longest_execution_seconds, longest_run_seconds
from sandrl.rewards.limits import Limits
from sandrl.rewards.opinions import OpinionMemory
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.summary import ScoreReport
from sandrl.sandboxes import Interrupt, Job, SandboxRequest
from sandrl.settings import load_settings

# Enough for a sandbox to be created and stopped in, however busy the runtime is.
_LIFETIME_MARGIN_SECONDS = 300.0


def lifetime_seconds(problems: Mapping[str, Problem], limits: Limits) -> float:
    """After how long the service should end a sandbox by itself, whatever happened to the job."""
    return longest_seconds(problems, limits) + _LIFETIME_MARGIN_SECONDS


def longest_seconds(problems: Mapping[str, Problem], limits: Limits) -> float:
    """How long a completion of any of these problems may take by the clock, where processors are scarce."""
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
) -> ScoreReport:
    """Judges every completion, each in a cell of a worker sandbox or a fresh sandbox of its own.

    Args:
        completions: What to score; each names its problem. Completions, dictionaries like rows of a file, or the file.
        problems: Problems or dictionaries like rows of a file, by `task_id` or in a list, or where to load them from.
        job: Owns the sandboxes, and is closed by the caller. Without one, one is made on the runtime that the
            environment decides for, and closed at the end.
        judge: Decides what a completion did.
        options: How to score.
        cache: Verdicts to begin with, and where to keep those that are found; a fresh one unless given.
        emit: Told what happens.
        interrupt: The user's wish to stop.
        on_result: Told each result as soon as there is one; second opinions come later, and are in the report.
        opinions: Second opinions of earlier batches, and where to keep those that are found, so that identical
            completions of several batches are asked about once; of this batch only unless given.
        keeps_output: Whether the results of the report have what the completions printed; those that `on_result` gets
            have it in any case. Without it, memory follows what is in flight.

    Returns:
        All results in input order, and their totals.

    Raises:
        InputError: If a problem or a completion is wrong, or a completion names a problem that is not given.
        AuthenticationError: If the service refuses the credentials.
        UsageError: If the service refuses the request itself.
    """
    problems = as_problems(problems)
    completions = as_completions(completions, problems)
    options = options or ScoreOptions()
    options.second_opinion.check()
    if job is None:
        sandboxes = SandboxRequest()
        connection = sandboxes.connect(load_settings(), emit=emit)
        lifetime = lifetime_seconds(problems, options.limits)
        with sandboxes.job(connection, command="score", max_lifetime_seconds=lifetime, emit=emit) as own:
            return score(
                completions,
                problems,
                job=own,
                judge=judge,
                options=options,
                cache=cache,
                emit=emit,
                interrupt=interrupt,
                on_result=on_result,
                opinions=opinions,
                keeps_output=keeps_output,
            )
    judge = judge or IsolatedJudge.on(job.connection)
    if cache is None:
        cache = VerdictCache()
    batch = Batch(
        job, judge, options, cache, emit, interrupt or Interrupt(), on_result, opinions, keeps_output=keeps_output
    )
    for completion in completions:
        batch.add(completion, problems)
    return batch.run()
