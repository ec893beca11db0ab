"""The budget of a training: the training stops before the first step that would exceed it.

A step that is cut off is lost, so a training stops between steps, and its last checkpoint belongs to its last step. A
step is expected to use as much sandbox time as the previous one, including the time in which the trainer generates
completions.
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
