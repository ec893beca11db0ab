"""The budget of a training: it ends between two steps where another one would exceed it.

The design decision: a step that is torn open is lost, so a training stops before the step that does not fit, and its
last checkpoint is that of its last step. A step is expected to use as much sandbox time as the one before it, the time
in which the trainer makes its completions included.
"""

from __future__ import annotations

from sandrl.sandboxes import Job, Level


class StepBudget:
    """Looks at the budget where steps begin and end.

    Args:
        job: Owns the sandboxes.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._spending = job.spending
        self._began_seconds = job.spending.seconds

    def begin_step(self) -> None:
        """A step begins."""
        self._began_seconds = self._spending.seconds

    def end_step(self, *, is_last: bool) -> None:
        """A step has ended; has the training stop if another one would exceed the budget.

        Args:
            is_last: Whether no other follows.
        """
        if not is_last:
            self._spending.look()
            self._spending.expect(self._spending.seconds - self._began_seconds)
            if self._spending.level is not Level.NONE:
                # To save the policy may take longer than the step.
                self._job.give_up_early()
