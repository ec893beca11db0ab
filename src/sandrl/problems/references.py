"""Reference solutions as completions: a set of problems is checked by scoring its own answers."""

from __future__ import annotations

from collections.abc import Iterable

from sandrl.problems.completions import Completion
from sandrl.problems.problem import Problem


def reference_completions(problems: Iterable[Problem]) -> tuple[Completion, ...]:
    """Returns a completion with the reference solution of every problem that has one, in the same order."""
    return tuple(
        Completion(id=problem.task_id, task_id=problem.task_id, code=problem.reference)
        for problem in problems
        if problem.reference is not None
    )
