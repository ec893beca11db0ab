"""Runs one `sandrl reward` from its inputs to its report, without its presentation.

Everything that can be wrong with the input is checked before a runtime is contacted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sandrl.config.scoring import RewardConfig
from sandrl.errors import UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.jsonl import STANDARD_INPUT
from sandrl.problems import Completion, Problem, demo_completions, demo_problems, load_completions, load_problems
from sandrl.problems.completions import named_tasks
from sandrl.problems.loading import reading_of
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rewards.reward_run import RewardRun
from sandrl.rewards.scored_run import score_run
from sandrl.sandboxes import Interrupt
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import Settings


def run_reward(
    request: RewardConfig, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> RewardRun:
    """Scores completions from a file and leaves a run directory.

    Raises:
        UsageError: If the input cannot be used.
        ServiceError: If the runtime, or the disk, does not do its part.
    """
    completions, problems = _load_checked(request, emit)
    return score_run(
        request,
        lambda _: [completions],
        problems,
        settings,
        total=len(completions),
        command="reward",
        job_id=request.job_id,
        # The demo is there to be seen arriving out of order; its programs mostly sleep.
        least_concurrency=len(completions) if request.completions is None else 1,
        emit=emit,
        interrupt=interrupt,
    )


def estimate_reward(request: RewardConfig, settings: Settings) -> SandboxEstimate:
    completions, problems = _load_checked(request, ignore)
    return estimate_sandboxes(
        request,
        ScoreOptions.of(request).limits,
        settings,
        command="reward",
        counts=((problems[each.task_id], 1) for each in completions),
        service=request.service,
    )


def _load_checked(request: RewardConfig, emit: Emit) -> tuple[Sequence[Completion], Mapping[str, Problem]]:
    if request.completions is None:
        for field in ("problems", "fields", "completion_fields", "language", "prelude"):
            if getattr(request, field) != RewardConfig.model_fields[field].default:
                hint = "sandrl reward COMPLETIONS.jsonl --problems …"
                raise UsageError(f"{field} needs completions to score", hint=hint, fields=(field,))
    if request.completions == request.problems == STANDARD_INPUT:
        raise UsageError("completions and problems cannot both come from standard input")
    if request.completions is None:
        return demo_completions(), demo_problems()
    problems = load_problems(
        request.problems,
        skip_bad_rows=request.skip_bad_rows,
        **reading_of(request),
        only=named_tasks(request.completions, request.completion_fields),
    )
    completions = load_completions(
        request.completions,
        task_ids=problems.names,
        skip_bad_rows=request.skip_bad_rows,
        fields=request.completion_fields,
    )
    if problems.note:
        emit(Warned(problems.note))
    if skipped := completions.skipped:
        emit(Warned(f"{len(skipped)} rows of completions skipped; the first: {skipped[0].message}"))
    return completions.completions, problems.problems
