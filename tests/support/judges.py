"""A judge that never keeps checks out of the process of a completion."""

from __future__ import annotations

from sandrl.problems import Problem
from sandrl.rewards.calibration import PLAIN, Calibration
from sandrl.rewards.guest_report import Execution
from sandrl.rewards.judge import Judge
from sandrl.rewards.limits import Limits


class InProcessJudge(Judge):
    """Judges each completion as the usual judge does where a completion must be in one process with its checks."""

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = True
    ) -> Execution:
        """The command that judges `code` in one process with its checks."""
        return super().prepare(problem, code, limits, known, together=True)
