"""Ways to judge code in tests: without a sandbox, and in the sandboxes of a job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from sandrl.config.scoring import RewardConfig
from sandrl.events.results import ScoredCompletion
from sandrl.judge.calibration import PLAIN, Calibration
from sandrl.judge.guest_report import Execution
from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.judge.verdict import Verdict
from sandrl.problems import Completion, Problem
from sandrl.rewards import ScoreOptions, score
from sandrl.sandboxes import CommandOutcome, Job
from sandrl.settings import RuntimeKind
from tests.support.outside import outside


class InProcessJudge(Judge):
    """Judges each completion as the usual judge does where a completion must be in one process with its checks."""

    def prepare(
        self, problem: Problem, code: str, limits: Limits, known: Calibration = PLAIN, *, together: bool = True
    ) -> Execution:
        """The command that judges `code` in one process with its checks."""
        return super().prepare(problem, code, limits, known, together=True)


def judge_outside(
    judge: Judge,
    problem: Problem,
    code: str,
    limits: Limits | None = None,
    *,
    together: bool = False,
    python: str = sys.executable,
) -> Verdict:
    """Judges trusted code without a sandbox; hostile code is judged in tests/integration only."""
    execution = judge.prepare(problem, code, limits or Limits(), together=together)
    argv = outside(execution.command.argv, python)
    done = subprocess.run(argv, input=execution.command.input, capture_output=True, timeout=60, check=False)
    return judge.interpret(execution, CommandOutcome("sb", done.returncode, done.stdout, done.stderr))


def scored(job: Job, problem: Problem, *codes: str, **options: Any) -> list[ScoredCompletion]:
    """The results of completions of a problem, none of them from a cache."""
    completions = [Completion(str(number), problem.task_id, code=code) for number, code in enumerate(codes)]
    wanted = ScoreOptions(concurrency=4, caching=False, **options)
    return list(score(completions, {problem.task_id: problem}, job=job, options=wanted).results)


def reward_config(folder: Path, problem: Problem, codes: list[str], **options: Any) -> RewardConfig:
    """A run on the local runtime that scores completions of a problem; an empty one has no code."""
    row = {"task_id": problem.task_id, "prompt": problem.prompt, "tests": problem.tests}
    (folder / "p.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    rows = [{"task_id": problem.task_id, "code" if code else "completion": code or "No."} for code in codes]
    (folder / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return RewardConfig(
        completions=str(folder / "c.jsonl"),
        problems=str(folder / "p.jsonl"),
        runtime=RuntimeKind.LOCAL,
        runs_dir=folder / "runs",
        **options,
    )
