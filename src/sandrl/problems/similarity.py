"""Near duplicates within a set of problems, and what an evaluation set has in common with it.

Exact duplicates are the business of `sandrl.problems.splits`, which leaves them out of every evaluation. Similar
wording is weaker evidence: "the 2nd largest" and "the 3rd largest" differ. It is therefore reported, and left out on
request only. Near duplicates have the same words with digits, and the same machine.

Both measures read a large set in one or two passes, and memory holds some numbers for each problem.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest

from sandrl.problems.problem import Problem

RUN_OF_WORDS = 8
"""So many equal words in a row are hardly chance."""

CONTAMINATED = 0.5
"""The share of a prompt's words in common runs from which its problem counts as known (arXiv:2411.15124, 3.2)."""

NEARLY_EQUAL = 0.8
"""The Jaccard similarity of near duplicates (arXiv:2107.06499, 4.2)."""

_SHINGLE = 3
# Of each prompt the smallest hashes of its shingles: two of similarity 0.8 have none in common once in 600 pairs.
_SKETCH = 4
_MOST_OWNERS = 8
# A run of words that more training prompts have is a phrase of the set, such as "write a function to find the".
_COMMON = 10
_COMMON_SHARE = 0.01

# Scripts that put no blanks between words count by character.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


@dataclass(frozen=True, slots=True)
class Match:
    """A problem, another one that is like it, and how much they have in common, from 0 to 1."""

    task_id: str
    other: str
    share: float


def words_of(prompt: str) -> list[str]:
    """The words of a prompt, without case, punctuation and layout."""
    return _WORD.findall(prompt.casefold())


def contaminated(evaluation: Mapping[str, Problem], training: Mapping[str, Problem]) -> list[Match]:
    """The evaluation problems of which a training prompt has half of the words or more, in runs of 8 words.

    There is a `Match` for each such pair, the largest of an evaluation problem first.
    Runs that more than 10 training prompts (in a large set, one in a hundred) have do not count, and neither do
    prompts of fewer than 16 words: of them, one equal run says too little.
    """
    places: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    texts = [words_of(problem.prompt) for problem in evaluation.values()]
    for number, words in enumerate(texts):
        for at, run in enumerate(_runs(words, RUN_OF_WORDS) if len(words) >= 2 * RUN_OF_WORDS else ()):
            places[run].append((number, at))
    most = max(_COMMON, int(len(training) * _COMMON_SHARE))
    counts: Counter[tuple[str, ...]] = Counter()
    shared: dict[str, tuple[tuple[str, ...], ...]] = {}
    for name, problem in training.items() if places else ():
        known_runs = places.keys() & set(_runs(words_of(problem.prompt), RUN_OF_WORDS))
        counts.update(known_runs)
        if common := tuple(run for run in known_runs if counts[run] <= most):
            shared[name] = common
    found: list[list[Match]] = [[] for _ in texts]
    names = list(evaluation)
    for name, runs in shared.items():
        covered: defaultdict[int, set[int]] = defaultdict(set)
        for run in runs:
            for number, at in places[run] if counts[run] <= most else ():
                covered[number].update(range(at, at + RUN_OF_WORDS))
        for number, known in covered.items():
            share = len(known) / len(texts[number])
            if share >= CONTAMINATED:
                found[number].append(Match(names[number], name, share))
    return [each for pairs in found for each in sorted(pairs, key=lambda each: -each.share)]


def near_duplicates(problems: Mapping[str, Problem]) -> list[Match]:
    """The problems that are near duplicates of an earlier one which is none itself.

    Their prompts have 80% of all their shingles of 3 words in common (Jaccard). Candidates are found by their smallest
    hashes (Broder 1997, Proc. Compression and Complexity of Sequences: 21), and then compared exactly.
    """
    owners: defaultdict[int, list[str]] = defaultdict(list)
    found: list[Match] = []

    @lru_cache(maxsize=1_000)
    def traits(name: str) -> tuple[frozenset[int], object]:
        return _traits(problems[name])

    for name, problem in problems.items():
        shingles, rest = _traits(problem)
        sketch = nsmallest(_SKETCH, shingles)
        candidates = dict.fromkeys(owner for number in sketch for owner in owners[number])
        best = Match(name, "", 0.0)
        for other in candidates:
            theirs, others_rest = traits(other)
            if rest == others_rest:
                share = len(shingles & theirs) / len(shingles | theirs)
                best = max(best, Match(name, other, share), key=lambda each: each.share)
        if best.share >= NEARLY_EQUAL:
            found.append(best)
            continue
        for number in sketch:
            if len(owners[number]) < _MOST_OWNERS:
                owners[number].append(name)
    return found


def _traits(problem: Problem) -> tuple[frozenset[int], object]:
    # The hashed shingles of a prompt, the same in every process; and what near duplicates have exactly in common.
    words = words_of(problem.prompt)
    runs = _runs(words, min(len(words), _SHINGLE)) if words else iter(())
    shingles = frozenset(zlib.crc32(" ".join(run).encode("utf-8", "surrogatepass")) for run in runs)
    task = problem.task
    machine = None if task is None else (task.environment.image, task.environment.files)
    decisive = Counter(word for word in words if any(map(str.isdigit, word)))
    return shingles, (machine, problem.language, decisive)


def _runs(words: list[str], length: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[at:] for at in range(length)), strict=False)
