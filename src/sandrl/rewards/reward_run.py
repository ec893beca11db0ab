"""A finished run of scored completions, and what its command ends with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sandrl.config.scoring import ScoredRunConfig
from sandrl.errors import CleanupError, GateError, InfrastructureError, InputError, raise_for_end
from sandrl.events.results import Status
from sandrl.runs.summary import Summary
from sandrl.scoring.summary import ScoreReport, raise_for_rewards

_HINTS = {
    Status.INFRASTRUCTURE: "check the runtime, and score them again: sandrl runtime status",
    Status.JUDGE_ERROR: "check the model that grades (`judge_base_url`), and score them again",
}


@dataclass(frozen=True, slots=True)
class RewardRun:
    """A finished run.

    Attributes:
        cleanup_error: Set if sandboxes were left behind.
        exhausted: Says that the budget is used up; empty if it is not.
        can_resume: Whether the command can go on with it.
    """

    request: ScoredRunConfig
    report: ScoreReport
    run_dir: Path
    cleanup_error: CleanupError | None = None
    exhausted: str = ""
    can_resume: bool = False

    def raise_for_outcome(self) -> None:
        """Raises what the command should end with, the most urgent first.

        Raises:
            InterruptedRunError: If the user asked to stop.
            BudgetError: If the budget was used up before everything was scored.
            CleanupError: If sandboxes were left behind.
            InfrastructureError: If completions are unscorable because their sandboxes failed.
            InputError: If completions are unscorable because their problems are broken.
            UsageError: If the reward function failed for completions.
            GateError: If the pass rate is below what was asked for.
        """
        report, results = self.report, self.report.results
        total = len(results) + report.unfinished
        saved = f"{self.run_dir}" + (f" and {self.request.out}" if self.request.out else "")
        message = f"interrupted: {len(results)} of {total} completions are scored and saved in {saved}"
        raise_for_end(
            message,
            signal_number=report.signal_number,
            cleanup_error=self.cleanup_error,
            exhausted=self.exhausted if report.unfinished else "",
            budget_hint=self._budget_hint,
        )
        failed = [result for result in results if result.status.is_lost]
        if failed:
            first = f"{failed[0].task_id}: {failed[0].detail}"
            message = f"{len(failed)} of {len(results)} completions could not be scored: {first}"
            raise InfrastructureError(message, hint=_HINTS[failed[0].status])
        invalid = [result for result in results if result.status is Status.INVALID_PROBLEM]
        if invalid:
            message = f"{len(invalid)} completions belong to invalid problems: {invalid[0].detail}"
            raise InputError(message, path=self.request.problems, field=invalid[0].task_id)
        raise_for_rewards(results)
        self._raise_for_gate(report.summary)

    @property
    def _budget_hint(self) -> str:
        if self.can_resume:
            return f"sandrl eval --resume {self.run_dir.name} --budget … continues with a larger budget"
        return "score them again with a larger `budget`; `cache` DIR keeps verdicts from one run to the next"

    def _raise_for_gate(self, summary: Summary) -> None:
        gate = self.request.fail_under
        if gate is None or (summary.pass_rate is not None and summary.pass_rate >= gate):
            return
        rate = "no completion was scored" if summary.pass_rate is None else f"the pass rate is {summary.pass_rate:g}"
        raise GateError(f"{rate}, and fail_under requires {gate:g}", fields=("fail_under",))
