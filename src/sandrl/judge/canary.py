"""A known-good program that distinguishes a broken runtime from a completion that breaks its sandbox.

The canary goes through the same judge, the same image and the same kind of sandbox as a completion. A fault that makes
the canary fail would have failed any completion; if the canary passes, the failure is specific to the completion.
"""

from __future__ import annotations

from sandrl.errors import InfrastructureError
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.problems import Problem
from sandrl.sandboxes import CommandOutcome

CANARY = Problem(
    "canary", "Return the sum of two numbers.", tests=("assert add(2, 3) == 5", "assert add(-1, 1) == 0"), setup=""
)
_CODE = "def add(a, b):\n    return a + b\n"


def prepare_canary(judge: Judge) -> Execution:
    """The canary, ready to be run; with limits of its own, because the user's may be too tight for any program."""
    return judge.prepare(CANARY, _CODE, Limits())


def has_passed(judge: Judge, execution: Execution, outcome: CommandOutcome) -> bool:
    """Whether the canary got the verdict it must get."""
    try:
        return judge.interpret(execution, outcome).is_pass
    except InfrastructureError:
        return False
