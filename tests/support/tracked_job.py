"""A job of a run that does steps and reports them to trackers, in a process of its own: W&B's outlives what it served.

`python tracked_job.py TRACKERS ATTEMPT FIRST LAST [WAIT]`: it is killed (SIGKILL) after its last step, if WAIT says how
many seconds later. The run is `runs/run`; each step has three completions, and a table of every second one is wanted.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from sandrl.errors import RunOutcome
from sandrl.runs import RunWriter
from sandrl.runs.rows import MetricsRow, ProblemRow, TrajectoryRow
from sandrl.runs.trackers import reporting
from sandrl.settings import ReportTo, load_settings


def metrics_of(step: int, attempt: int) -> dict[str, float | None]:
    """The metrics of a step."""
    return {"loss": 1 / (step + 1) + attempt, "held_out/pass@1": 0.25 * step, "aviato/executions": 3.0, "empty": None}


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main() -> None:
    trackers, attempt, first, last = sys.argv[1], *(int(word) for word in sys.argv[2:5])
    settings = load_settings()
    options = {"steps": 9, "log_completions": 2}
    writer = RunWriter.create(
        Path("runs"), command="grpo", job_id=f"job-{attempt}", name="run", resume=attempt > 1, options=options,
        secrets=settings.secrets,
    )  # fmt: skip
    report_to = [ReportTo(word) for word in trackers.split(",")]
    with writer, reporting(writer, report_to, settings, is_training=True, emit=say):
        writer.append(ProblemRow(job_id="job", digest="d", task_id="double", prompt="Write double(n)."))
        for step in range(first, last + 1):
            for index in range(3):
                row = TrajectoryRow(
                    job_id="job", step=step, attempt=attempt, index=index, id=f"c{index}", task_id="double",
                    reward=index / 2, status="passed" if index == 2 else "failed", passed=index, total=2,
                    detail="" if index == 2 else "check 2 of 2: wrong", duration_seconds=0.1, problem="d",
                    completion=f"answer {index} of attempt {attempt} {settings.wandb_api_key}",
                )  # fmt: skip
                writer.append(row)
            writer.append(MetricsRow(job_id="job", step=step, attempt=attempt, metrics=metrics_of(step, attempt)))
        if len(sys.argv) > 5:
            time.sleep(float(sys.argv[5]))
            os.kill(os.getpid(), signal.SIGKILL)
        writer.finish(RunOutcome.FINISHED)
    say("done")


if __name__ == "__main__":
    main()
