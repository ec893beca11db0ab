"""Run directories as jobs leave them, written by the real writer, for those who read them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from sandrl.events import CompletionFinished, ExecutionFinished, ScoredCompletion, Status, Trust
from sandrl.runs import MetricsRecorder, RunOutcome, RunWriter, SandboxEvent, TrajectoryRow
from sandrl.runs.rows import SandboxRow
from sandrl.settings import load_settings

JOB = "job-0123abcd"


def trajectory(index: int = 0, **fields: Any) -> TrajectoryRow:
    """A completion that passed, unless told otherwise."""
    code = f"def f{index}(x):\n    return x + 1"
    defaults = {
        "job_id": JOB, "id": f"c{index}", "task_id": "inc", "reward": 1.0, "status": "passed", "trust": "isolated",
        "passed": 1, "total": 1, "duration_seconds": 0.25, "sandboxes": 1, "sandbox_id": f"s-{index}",
        "completion": f"<answer>{code}</answer>", "code": code,
    }  # fmt: skip
    return TrajectoryRow(**{**defaults, "index": index, **fields})


def failed(index: int, status: str = "failed", **fields: Any) -> TrajectoryRow:
    """A completion that did not pass."""
    ran = {"code": None, "sandboxes": 0, "sandbox_id": None, "trust": None} if status == "no_code" else {}
    return trajectory(
        index, **{"reward": 0.0, "status": status, "passed": 0, "detail": f"why {index}", **ran, **fields}
    )


def event_of(row: TrajectoryRow) -> CompletionFinished:
    """The event that goes with a row."""
    known = {field.name: getattr(row, field.name) for field in fields(ScoredCompletion) if hasattr(row, field.name)}
    words = {"status": Status(row.status), "trust": None if row.trust is None else Trust(row.trust), "checks": ()}
    return CompletionFinished(ScoredCompletion(**{**known, **words}), finished=0, of=0)


def write_run(
    runs_dir: Path,
    rows: list[TrajectoryRow],
    *,
    name: str = "sample",
    command: str = "reward",
    outcome: RunOutcome | None = RunOutcome.FINISHED,
    extra: dict[int, dict[str, float | None]] | None = None,
    options: dict[str, Any] | None = None,
) -> Path:
    """Writes a run, with metrics for each of its steps.

    Args:
        runs_dir: Where runs are.
        rows: Its completions, in the order of their steps.
        name: Its name.
        command: Its subcommand.
        outcome: How its job ended; None leaves it as a killed one, without metrics.
        extra: Further metrics by step.
        options: Further options.
    """
    with RunWriter.create(
        runs_dir,
        command=command,
        job_id=JOB,
        name=name,
        state_dir=load_settings().state_dir,
        options={"timeout": 10, **(options or {})},
    ) as writer:
        recorder = MetricsRecorder(writer)
        for row in rows:
            for number in range(row.sandboxes):
                key = f"{row.index}.{number}"
                writer.append_sandbox(
                    SandboxRow(job_id=JOB, event=SandboxEvent.INTENT, key=key, tags=("rl-training", JOB))
                )
            writer.append(row)
        if outcome is not None:
            for step in sorted({row.step or 0 for row in rows}):
                for row in rows:
                    if (row.step or 0) == step:
                        recorder(event_of(row))
                        for _ in range(row.sandboxes):
                            ended = "success" if row.status == "passed" else "failure"
                            recorder(
                                ExecutionFinished(
                                    row.task_id, row.sandbox_id, ended, startup_seconds=0.02, exec_seconds=0.2
                                )
                            )
                recorder.log(step, (extra or {}).get(step))
            writer.finish(outcome)
        return writer.path
