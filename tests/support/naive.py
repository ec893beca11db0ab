"""The common scheme: solution and asserts in one `python -c`, rewarded by its exit status. Fit to be fooled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sandrl.errors import InfrastructureError
from sandrl.problems import Problem
from sandrl.sandboxes import Command, Job, Launch

_CASES = """\
import contextlib, io, sys
for stdin, expected in {cases!r}:
    sys.stdin, stdout = io.StringIO(stdin), io.StringIO()
    with contextlib.redirect_stdout(stdout):
        exec({code!r}, {{"__name__": "__main__"}})
    assert stdout.getvalue().split() == expected.split()
"""


def naive_program(problem: Problem, code: str) -> str:
    """The text that such schemes hand to `python -c`."""
    if problem.cases:
        return _CASES.format(cases=[(case.stdin, case.stdout) for case in problem.cases], code=code)
    return "\n".join([problem.setup, code, *problem.tests])


def naive_rewards(
    answers: Sequence[tuple[Problem, str]], job: Job, *, timeout_seconds: float = 15.0, concurrency: int = 4
) -> list[float]:
    """What each answer earns, each in a sandbox of its own: 1.0 for exit status 0, or 0.0."""
    rewards = [0.0] * len(answers)
    flying: dict[Launch, int] = {}
    waiting = list(enumerate(answers))[::-1]
    while waiting or flying:
        while waiting and len(flying) < concurrency:
            number, (problem, code) = waiting.pop()
            argv = ("python", "-c", naive_program(problem, code))
            flying[job.launch(Command(argv, timeout_seconds=timeout_seconds))] = number
        for launch in job.wait_any():
            number = flying.pop(launch)
            with suppress(InfrastructureError):  # of which such schemes make a zero
                rewards[number] = float(job.collect(launch).exit_code == 0)
    return rewards
