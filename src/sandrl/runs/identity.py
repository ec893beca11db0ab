"""Checks that the numbers of a run agree, by the identity in docs/reference/metrics.md.

Every completion, execution and sandbox is counted in three places that are written at different times: the rows of
completions, the metrics, and the ledger. A sum that does not add up is a bug of sandrl or damage to the files, never an
effect of the environment.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sandrl.runs.reader import RunReader, SlimRow
from sandrl.runs.rows import MetricsRow, OpinionRow, SandboxEvent, SandboxRow
from sandrl.runs.summary import Values, completion_metrics, opinion_metrics

RowT = TypeVar("RowT", SlimRow, OpinionRow)

CANARY_TAG = "canary"
"""Tag of the sandboxes of known-good programs, which do not count as executions."""

OPINION_TAG = "second-opinion"
"""Tag of the sandboxes in which failed completions are judged again in one process; they do not count as executions."""

HASH_SEED_TAG = "hash-seed"
"""Tag of the sandboxes in which completions are judged under another hash seed; they do not count as executions.
"""

VERIFIER_TAG = "verifier"
"""Marks sandboxes of a task's trial besides the first one: of its verifier, and on the untouched image."""

ROLLOUT_TAG = "rollout"
"""Tag of the sandboxes in which policies work; submitted code is executed in other sandboxes."""

WARM_TAG = "warm"
"""Tag of the sandboxes that were created before they were needed; an unused sandbox is not an execution."""

WORKER_TAG = "worker"
"""Tag of the sandboxes in which many completions are judged, each in a cell."""

_NO_EXECUTIONS = {CANARY_TAG, VERIFIER_TAG, HASH_SEED_TAG, OPINION_TAG, ROLLOUT_TAG, WORKER_TAG}

_WITHOUT_EXECUTION = ("invalid_problem", "not_isolated", "abstained", "judge_error", "reward_error")
_COUNTS = ("completions", "scored", "unscorable", "no_code", "cache_hits", "executed", "executions", "retries",
           "reruns", "canaries", "reward/total")  # fmt: skip


def disagreements(
    reader: RunReader, *, is_complete: bool, trajectories: Sequence[SlimRow] | None = None
) -> tuple[str, ...]:
    """What in a run does not add up: one line for each sum that is wrong; completions are read unless they are given.

    A job that did not finish (`is_complete`) may have used sandboxes for completions that have no result, and one that
    was killed has completions that are in no metrics.
    """
    rows = tuple(reader.each_counted()) if trajectories is None else trajectories
    opinions, metrics = reader.opinions().rows, reader.metrics().rows
    ledger = _Intents.of(reader.each_sandbox())
    return (
        *_of_completions(rows),
        *_of_opinions(rows, opinions, ledger),
        *_with_ledger(rows, ledger, is_complete=is_complete),
        *_with_metrics("completions", rows, _count_completions, metrics, unmeasured=None, is_complete=is_complete),
        *_with_metrics("second opinions", opinions, _count_opinions, metrics, unmeasured=0.0, is_complete=is_complete),
    )


@dataclass(frozen=True, slots=True)
class _Intents:
    # Of sandboxes that stood ready before they were needed, only the used ones are executions.
    executions: int
    opinions: int

    @classmethod
    def of(cls, ledger: Iterable[SandboxRow]) -> _Intents:
        executions = opinions = 0
        warm: set[tuple[str, int, str]] = set()
        used: set[tuple[str, int, str]] = set()
        for row in ledger:
            place = (row.job_id, row.rank, row.key)
            if row.event is SandboxEvent.TAKEN:
                used.add(place)
            elif row.event is SandboxEvent.INTENT:
                opinions += OPINION_TAG in row.tags
                if not _NO_EXECUTIONS.isdisjoint(row.tags):
                    continue
                if WARM_TAG in row.tags:
                    warm.add(place)
                else:
                    executions += 1
        return cls(executions + len(warm & used), opinions)


def _has_nothing_to_execute(row: SlimRow) -> bool:
    # Whether an episode was lost before there was a completion, its problem cannot be judged, or it has no code, which
    # a reward that is missing hides.
    is_refused = row.status in _WITHOUT_EXECUTION and not row.cached
    return (row.dropped or is_refused) and not row.sandboxes


def _of_completions(rows: Sequence[SlimRow]) -> list[str]:
    counts = {name: value or 0.0 for name, value in completion_metrics(rows).items()}
    others = sum(row.contradicts_checks for row in rows)
    return [
        *_unequal(
            ("completions", counts["completions"] - sum(map(_has_nothing_to_execute, rows))),
            ("executed + cache_hits + no_code", counts["executed"] + counts["cache_hits"] + counts["no_code"]),
        ),
        *_unequal(
            ("executions", counts["executions"]),
            ("executed + retries + reruns", counts["executed"] + counts["retries"] + counts["reruns"]),
        ),
        *([f"completions whose counts differ from their single checks: {others}"] if others else []),
    ]


def _of_opinions(rows: Sequence[SlimRow], opinions: Sequence[OpinionRow], ledger: _Intents) -> list[str]:
    # Each opinion is on one completion, which has failed; each sandbox it says it had is in the ledger.
    known = [row for row in rows if row.second_opinion is not None]
    of_others = sum(
        row.trust not in ("isolated", "own_operator") or row.reward is None or row.status == "passed" for row in known
    )
    intents = ledger.opinions
    sandboxes = sum(row.opinion.sandboxes for row in opinions)
    return [
        *_unequal(("second opinions", len(opinions)), ("completions that have one", len(known))),
        *([f"second opinions on completions that have not failed isolated: {of_others}"] if of_others else []),
        # Of one that was given up, the sandbox may come to be later, or not at all.
        *([f"sandboxes of second opinions: {sandboxes}, but in the ledger: {intents}"] if intents < sandboxes else []),
    ]


def _with_ledger(rows: Sequence[SlimRow], ledger: _Intents, *, is_complete: bool) -> list[str]:
    intents = ledger.executions
    executions = sum(row.sandboxes - row.cells for row in rows)
    if is_complete:
        return _unequal(("sandboxes in the ledger", intents), ("executions", executions))
    return [] if intents >= executions else [f"sandboxes in the ledger: {intents}, fewer than executions: {executions}"]


def _count_completions(rows: Sequence[SlimRow]) -> Values:
    counts = completion_metrics(rows)
    return {name: counts[name] for name in _COUNTS}


def _count_opinions(rows: Sequence[OpinionRow]) -> Values:
    return opinion_metrics([row.opinion.status for row in rows])


def _with_metrics(
    noun: str,
    rows: Iterable[RowT],
    count: Callable[[Sequence[RowT]], Values],
    metrics: Sequence[MetricsRow],
    *,
    unmeasured: float | None,
    is_complete: bool,
) -> list[str]:
    by_step: defaultdict[int, list[RowT]] = defaultdict(list)
    for row in rows:
        if not row.held_out:
            by_step[row.step or 0].append(row)
    wrong = []
    for measured in metrics:
        for name, counted in count(by_step.get(measured.step, [])).items():
            value = measured.metrics.get(name)
            value = unmeasured if value is None else value
            if value is not None:
                place = f"in the {noun.removeprefix('second ')}"
                wrong += _unequal((f"step {measured.step}: {name} in the metrics", value), (place, counted or 0.0))
    missing = by_step.keys() - {measured.step for measured in metrics}
    if is_complete and missing:
        wrong.append(f"steps with {noun} and without metrics: {', '.join(map(str, sorted(missing)))}")
    return wrong


def _unequal(one: tuple[str, float], other: tuple[str, float]) -> list[str]:
    if math.isclose(one[1], other[1], rel_tol=1e-9, abs_tol=1e-9):
        return []
    return [f"{one[0]}: {one[1]:g}, but {other[0]}: {other[1]:g}"]
