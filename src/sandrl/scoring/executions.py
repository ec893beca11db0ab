"""Records of single executions of completions, for the metrics and the log of a run.

The judge's command exits 0 on a pass and 1 on a fail. A timeout is an error of the execution wherever it was enforced,
by the judge's clock or by the service's, as in the SDK's own counters.
"""

from __future__ import annotations

from sandrl.events import ExecutionFinished
from sandrl.events.results import Status
from sandrl.judge.verdict import Verdict
from sandrl.sandboxes import CommandOutcome, Launch
from sandrl.scoring.attempts import Attempt


def execution_finished(
    attempt: Attempt,
    launch: Launch,
    outcome: CommandOutcome | None = None,
    verdict: Verdict | None = None,
    error: str = "",
) -> ExecutionFinished:
    startup = launch.startup_seconds
    return ExecutionFinished(
        task_id=attempt.completion.task_id,
        sandbox_id=launch.sandbox_id,
        outcome=_outcome(outcome, verdict),
        index=attempt.index,
        returncode=None if outcome is None else outcome.exit_code,
        queue_seconds=launch.launched_at - attempt.queued_at if attempt.executions == 1 else None,
        startup_seconds=startup,
        exec_seconds=None if outcome is None else max(outcome.seconds - (startup or 0.0), 0.0),
        judge_seconds=None if verdict is None else verdict.wall_seconds,
        stdout_bytes=0 if verdict is None else verdict.stdout_bytes,
        stderr_bytes=0 if verdict is None else verdict.stderr_bytes,
        error=error,
        in_cell=launch.in_cell,
    )


def _outcome(outcome: CommandOutcome | None, verdict: Verdict | None) -> str:
    if outcome is None or verdict is None or verdict.status in (Status.TIMEOUT, Status.INFRASTRUCTURE):
        return "error"
    return "success" if outcome.exit_code == 0 else "failure"
