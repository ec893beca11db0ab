"""The judge's verdicts on the corpus beside those of plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sandrl.events.results import ScoredCompletion, Trust
from sandrl.rewards import Extraction, Limits, ScoreOptions, score
from sandrl.sandboxes import Job
from tests.honest.entries import Entry
from tests.honest.oracle import SECONDS, judge_in_plain_python


@dataclass(frozen=True, slots=True)
class Comparison:
    """One entry under both.

    Attributes:
        entry: What was judged.
        plain_failure: Why plain Python fails it; empty where it passes.
        result: What the judge made of it.
    """

    entry: Entry
    plain_failure: str
    result: ScoredCompletion

    @property
    def is_sound(self) -> bool:
        """Whether the entry is what it says: plain Python passes it, or fails it if it is marked `wrong`."""
        return bool(self.plain_failure) == self.entry.is_wrong

    @property
    def agrees(self) -> bool:
        """Whether the judge's reward is what plain Python would pay; a null reward is not."""
        return self.result.reward == (0.0 if self.plain_failure else 1.0)

    def __str__(self) -> str:
        result = self.result
        trust = "" if result.trust is None else f", {result.trust}"
        return f"{self.entry.id}: reward {result.reward}, {result.status}{trust}: {result.detail}"


@dataclass(frozen=True, slots=True)
class StyleRate:
    """How often the judge agrees with plain Python in one style."""

    style: str
    agreed: int
    total: int


def compare(entries: Sequence[Entry], job: Job, concurrency: int = 4) -> list[Comparison]:
    """Judges entries in both ways, in the order given."""
    reasons = judge_in_plain_python(entries, job, concurrency)
    results = judge_with_sandrl(entries, job, concurrency)
    return [Comparison(entry, reasons[entry.id], results[entry.id]) for entry in entries]


def judge_with_sandrl(entries: Sequence[Entry], job: Job, concurrency: int = 4) -> dict[str, ScoredCompletion]:
    """By entry id, what the judge makes of it."""
    results: dict[str, ScoredCompletion] = {}
    for how in Extraction:
        some = [entry for entry in entries if entry.extraction is how]
        if not some:
            continue
        options = ScoreOptions(
            extraction=how, limits=Limits(timeout_seconds=SECONDS), concurrency=concurrency, caching=False
        )
        problems = {entry.id: entry.problem for entry in some}
        report = score([entry.completion for entry in some], problems, job=job, options=options)
        results |= {result.id: result for result in report.results}
    return results


def rates(comparisons: Sequence[Comparison]) -> list[StyleRate]:
    """The rate of each style, in the order of their names."""
    total = Counter(comparison.entry.style for comparison in comparisons)
    agreed = Counter(comparison.entry.style for comparison in comparisons if comparison.agrees)
    return [StyleRate(style, agreed[style], count) for style, count in sorted(total.items())]


def agreement(comparisons: Sequence[Comparison]) -> float:
    """The share of entries on which the judge agrees with plain Python."""
    return sum(comparison.agrees for comparison in comparisons) / len(comparisons)


def trust_counts(comparisons: Sequence[Comparison]) -> Counter[Trust | None]:
    """How far verdicts on entries with tests could be believed; programs are left out."""
    return Counter(comparison.result.trust for comparison in comparisons if comparison.entry.problem.tests)
