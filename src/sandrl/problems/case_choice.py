"""Chooses the cases of a problem that are judged if the problem has more than `--max-cases`.

Cases are taken alternately from the order of the set, whose first cases fail a wrong answer soonest, and from the order
by length of input, longest first, on which a slow answer fails. The choice depends on the problem alone, and the cases
for a smaller number are always among those for a larger one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from sandrl.problems.problem import Problem
from sandrl.problems.store import ProblemStore


def with_most_cases(problem: Problem, most: int | None) -> Problem:
    """A problem with at most so many cases or calls, None for all; tests all stay: they may build on one another."""
    if most is None or problem.kind not in ("cases", "calls") or problem.check_count <= most:
        return problem
    lengths = [len(case.stdin) for case in problem.cases] or [len(call.arguments) for call in problem.calls]
    chosen = chosen_positions(lengths, most)
    if problem.cases:
        return replace(problem, cases=tuple(problem.cases[position] for position in chosen))
    return replace(problem, calls=tuple(problem.calls[position] for position in chosen))


def with_most_cases_each(problems: Mapping[str, Problem], most: int | None) -> Mapping[str, Problem]:
    if most is None:
        return problems
    return ProblemStore((name, with_most_cases(problem, most)) for name, problem in problems.items())


def chosen_positions(lengths: Sequence[int], most: int) -> list[int]:
    """The positions of the cases that are taken, from 0, in their order."""
    longest = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    in_turn = dict.fromkeys(chain.from_iterable(zip(range(len(lengths)), longest, strict=True)))
    return sorted(list(in_turn)[:most])
