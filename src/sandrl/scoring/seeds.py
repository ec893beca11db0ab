"""Verdicts under several hash seeds: which completions depend on the order of sets.

The reward is that of the first seed. The others are judged before it, each by a judge of its own, because a seed also
changes what a reference returns; so the result of a completion has all of its outcomes when it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sandrl.events import ignore
from sandrl.events.results import Status
from sandrl.judge.judge import Judge
from sandrl.problems import Completion, Problem
from sandrl.runs import HASH_SEED_TAG
from sandrl.sandboxes import Interrupt, Job
from sandrl.scoring.batch import Batch
from sandrl.scoring.cache import VerdictCache
from sandrl.scoring.options import ScoreOptions, SecondOpinion


def outcomes_by_seed(
    completions: Sequence[Completion],
    problems: Mapping[str, Problem],
    job: Job,
    judge: Judge,
    options: ScoreOptions,
    cache: VerdictCache,
    interrupt: Interrupt,
) -> dict[int, dict[str, str]]:
    """The outcomes of completions under the seeds after the first, by their positions and by seed.

    An outcome that says nothing of the completion is left out.
    """
    found: dict[int, dict[str, str]] = {}
    first = options.limits.hash_seed
    for seed in range(first + 1, first + options.hash_seeds):
        own = Judge.on(job.connection, require_isolated=judge.requires_isolated)
        under = replace(
            options,
            limits=replace(options.limits, hash_seed=seed),
            second_opinion=SecondOpinion(),
            tags=(HASH_SEED_TAG, *options.tags),
        )
        batch = Batch(job, own, under, cache, ignore, interrupt, None, keeps_output=False)
        batch.add_all(completions, problems)
        for result in batch.run().results:
            if result.status is not Status.INFRASTRUCTURE:
                found.setdefault(result.index, {})[str(seed)] = result.status.value
    return found
