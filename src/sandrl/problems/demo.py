"""The demo set: five problems with one completion each, made to arrive out of order and not all to pass.

They are ordinary files in the documented formats, read by the ordinary loaders, so that they are also an example of the
formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sandrl.problems.completion import Completion
from sandrl.problems.completions import load_completions
from sandrl.problems.loading import load_problems
from sandrl.problems.problem import Problem
from sandrl.problems.sources import DATA, DEMO_PROBLEMS


def demo_problems() -> Mapping[str, Problem]:
    """Returns slow-sum, string-ops, delayed-error, syntax-error and slow-list, by `task_id`."""
    return load_problems(DEMO_PROBLEMS).problems


def demo_completions() -> Sequence[Completion]:
    """Returns a completion of each; they sleep 2, 0, 1, 0 and 3 s, and pass, pass, fail, fail and pass."""
    return load_completions(DATA / "demo_completions.jsonl").completions
