"""The report of scoring: results, and totals that are counted as everywhere else (`sandrl.runs.summary`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sandrl.errors import InfrastructureError, InputError, SandrlError, UsageError
from sandrl.events import Warned
from sandrl.events.results import ScoredCompletion, Status
from sandrl.runs.held import SandboxTime
from sandrl.runs.signs import TRUNCATED_ANSWERS_SHARE
from sandrl.runs.summary import Summary, summarise


@dataclass(frozen=True)
class ScoreReport:
    """The results of scoring, and their totals; iterating yields the results.

    Attributes:
        job_id: The job whose sandboxes were used.
        results: The results in input order, without completions that were not finished because of a request to stop.
        unfinished: Number of completions without a result.
        signal_number: The signal that requested the stop; 0 if there was none.
        held: The sandbox time that the run has used, and its cost; `None` if it is not known.
        opinion_rate: The share of failed isolated verdicts that was to be judged again.
    """

    job_id: str
    results: tuple[ScoredCompletion, ...]
    unfinished: int = 0
    signal_number: int = 0
    held: SandboxTime | None = None
    opinion_rate: float = 0.0

    @cached_property
    def summary(self) -> Summary:
        judged = [result for result in self.results if result.hash_seeds]
        dependent = sum(result.depends_on_hash_seed for result in judged) if judged else None
        return summarise(self.results, opinion_rate=self.opinion_rate, hash_seed_dependent=dependent)

    def __iter__(self) -> Iterator[ScoredCompletion]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, number: int) -> ScoredCompletion:
        return self.results[number]

    def __bool__(self) -> bool:
        # A report without results is a report.
        return True

    def rows(self) -> list[dict[str, Any]]:
        """Returns one flat row of plain values for each result, for tables: `pandas.DataFrame(report.rows())`.

        All rows have the same columns. Each component is a column `component/NAME`.
        """
        names = sorted({name for result in self.results for name in result.components})
        return [_row(result, names) for result in self.results]

    def _repr_html_(self) -> str:
        from sandrl.scoring.notebook import report_html

        return report_html(self.results, self.summary)


def outcome_of(result: ScoredCompletion) -> dict[str, Any]:
    """What rows and documents of a result begin with: what it is, its reward, and how its checks ended."""
    return {
        "id": result.id,
        "task_id": result.task_id,
        "reward": result.reward,
        "status": result.status.value,
        "trust": None if result.trust is None else result.trust.value,
        "passed": result.passed,
        "total": result.total,
    }


def _row(result: ScoredCompletion, components: Sequence[str]) -> dict[str, Any]:
    return {
        **outcome_of(result),
        "detail": result.detail,
        "duration_seconds": result.duration_seconds,
        "cpu_seconds": result.cpu_seconds,
        "cached": result.cached,
        "sandbox_id": result.sandbox_id,
        "code": result.code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        **{f"component/{name}": result.components.get(name) for name in components},
    }


def raise_for_rewards(results: Sequence[ScoredCompletion]) -> None:
    """Raises what a reward policy did wrong, when the results are safe.

    Raises:
        UsageError: If it failed for one of them.
    """
    failed = [result for result in results if result.status is Status.REWARD_ERROR]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(results)} completions have no reward: {failed[0].detail}",
            hint="correct the function that `reward` names; `sandrl runs regrade` calls it for the saved completions",
            fields=("reward",),
        )


def truncation_warning(summary: Summary, *, hint: str) -> Warned | None:
    """The warning for answers that were cut off at the token limit; None where these are few."""
    share = summary.truncated_share
    if share is None or share <= TRUNCATED_ANSWERS_SHARE:
        return None
    count = f"{summary.truncated_answers} of {summary.answers_with_reason} completions ({share:.0%})"
    return Warned(
        f"{count} were cut off at the token limit, so their results are those of incomplete answers",
        hint,
        ("max_tokens",),
    )


LONGER_ANSWERS = "allow longer answers with `max_tokens`, or ask for shorter ones"
"""What to do about truncated answers of a model that is asked."""


def error_of(result: ScoredCompletion, *, hint: str) -> SandrlError:
    message = f"a completion of {result.task_id} could not be scored: {result.status.value}: {result.detail}"
    return (InfrastructureError if result.status is Status.INFRASTRUCTURE else InputError)(message, hint=hint)
