"""The leaderboard of an evaluation set: pass@1 of each model on each problem set, with intervals and ranks.

The samples of all seeds of a problem are one cluster, because a new seed asks about the same problems. Two models whose
intervals overlap share a rank: a rank is one more than the number of models whose whole interval is higher.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandrl.errors import InputError
from sandrl.evaluation.sets import EvalSet, Member, SetRun
from sandrl.runs import RunReader
from sandrl.runs.columns import RunColumns
from sandrl.runs.comparison import Part, Selection, tallies, unscorable_by_status
from sandrl.runs.statistics import Estimate
from sandrl.runs.summary import pass_at_document, pass_at_of


@dataclass(frozen=True, slots=True)
class Cell:
    """A model on a problem set, over all seeds.

    Attributes:
        by_seed: pass@1 of each seed; None where nothing was scored.
        rank: Its rank among the models on this problem set, from 1; None without a value.
    """

    pass_at: Mapping[int, Estimate]
    by_seed: Mapping[int, float | None]
    completions: int
    unscorable: int
    reward: float | None
    incomplete: tuple[int, ...]
    runs: Mapping[int, str]
    rank: int | None = None
    is_tied: bool = False

    @property
    def value(self) -> Estimate | None:
        """pass@1; None if nothing was scored."""
        return self.pass_at.get(1)


@dataclass(frozen=True, slots=True)
class Standing:
    """A model of a leaderboard.

    Attributes:
        mean: The mean of pass@1 over the problem sets; None unless it has all of them.
    """

    model: str
    cells: Mapping[str, Cell]
    mean: Estimate | None
    rank: int | None = None
    is_tied: bool = False


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The models of a set, the best first."""

    name: str
    problem_sets: tuple[str, ...]
    seeds: int
    standings: tuple[Standing, ...]


def leaderboard(run: SetRun, cache_dir: Path) -> Leaderboard:
    """Counts the completions of the runs of a set."""
    members: dict[str, dict[str, list[Member]]] = {}
    for member in run.request.members:
        members.setdefault(member.model, {}).setdefault(member.problem_set, []).append(member)
    sets = tuple(dict.fromkeys(member.problem_set for member in run.request.members))
    cells = {model: {name: _cell(run, own[name], cache_dir) for name in sets} for model, own in members.items()}
    for name in sets:
        ranks = _ranks({model: own[name].value for model, own in cells.items()})
        for model, (rank, is_tied) in ranks.items():
            cells[model][name] = replace(cells[model][name], rank=rank, is_tied=is_tied)
    means = {model: _mean([cell.value for cell in own.values()]) for model, own in cells.items()}
    ranks = _ranks(means)
    standings = [Standing(model, own, means[model], *ranks.get(model, (None, False))) for model, own in cells.items()]
    standings.sort(key=lambda each: -math.inf if each.mean is None else each.mean.value, reverse=True)
    return Leaderboard(run.request.name, sets, len({each.seed for each in run.request.members}), tuple(standings))


def leaderboard_document(found: Leaderboard) -> list[dict[str, Any]]:
    """A leaderboard as `sandrl eval --set FILE --json` prints it."""
    return [
        {
            "model": each.model,
            "rank": each.rank,
            "is_tied": each.is_tied,
            "mean_pass_at_1": each.mean and asdict(each.mean),
            "problem_sets": {name: _cell_document(cell) for name, cell in each.cells.items()},
        }
        for each in found.standings
    ]


def members_document(request: EvalSet, run: SetRun) -> list[dict[str, Any]]:
    return [
        {
            "model": member.model,
            "problem_set": member.problem_set,
            "seed": member.seed,
            "run_id": member.path.name,
            "path": str(member.path),
            "is_complete": member in run.done,
            "error": str(run.errors[member]) if member in run.errors else None,
        }
        for member in request.members
    ]


def _cell(run: SetRun, members: Sequence[Member], cache_dir: Path) -> Cell:
    pooled: dict[str, list[int]] = {}
    by_seed: dict[int, float | None] = {}
    runs: dict[int, str] = {}
    completions = scored = unscorable = 0
    rewards: list[float] = []
    for member in members:
        found = []
        with suppress(InputError):
            RunReader(member.path)
            columns = RunColumns(member.path, cache_dir)
            columns.refresh(math.inf)
            with columns.opened() as database:
                found = list(tallies(database, Selection(Part.ALL)))
                unscorable += sum(unscorable_by_status(database, Selection(Part.ALL)).values())
            runs[member.seed] = member.path.name
        own = pass_at_of([(each.scored, each.passed) for each in found if each.scored])
        by_seed[member.seed] = own[1].value if own else None
        for each in found:
            counts = pooled.setdefault(each.task_id, [0, 0])
            counts[0] += each.scored
            counts[1] += each.passed
            completions += each.n
            scored += each.scored
            rewards.append((each.reward or 0.0) * each.scored)
    return Cell(
        pass_at=pass_at_of([(n, c) for n, c in pooled.values() if n]),
        by_seed=by_seed,
        completions=completions,
        unscorable=unscorable,
        reward=math.fsum(rewards) / scored if scored else None,
        incomplete=tuple(member.seed for member in members if member not in run.done),
        runs=runs,
    )


# The mean over problem sets, with the interval that those of its parts make (MOVER: Zou and Donner 2008).
def _mean(values: Sequence[Estimate | None]) -> Estimate | None:
    known = [each for each in values if each is not None]
    if not known or len(known) < len(values):
        return None
    size = len(known)
    middle = math.fsum(each.value for each in known) / size
    below = math.sqrt(math.fsum((each.value - each.low) ** 2 for each in known)) / size
    above = math.sqrt(math.fsum((each.high - each.value) ** 2 for each in known)) / size
    return Estimate(middle, middle - below, middle + above, sum(each.problems for each in known))


def _ranks(values: Mapping[str, Estimate | None]) -> dict[str, tuple[int, bool]]:
    known = {name: each for name, each in values.items() if each is not None}
    ranks = {name: 1 + sum(other.low > each.high for other in known.values()) for name, each in known.items()}
    return {name: (rank, list(ranks.values()).count(rank) > 1) for name, rank in ranks.items()}


def _cell_document(cell: Cell) -> dict[str, Any]:
    return {
        "rank": cell.rank,
        "is_tied": cell.is_tied,
        **pass_at_document(cell.pass_at),
        "pass_at_1_by_seed": {str(seed): value for seed, value in cell.by_seed.items()},
        "reward_mean": cell.reward,
        "completions": cell.completions,
        "unscorable": cell.unscorable,
        "incomplete_seeds": list(cell.incomplete),
        "runs": {str(seed): run_id for seed, run_id in cell.runs.items()},
    }
