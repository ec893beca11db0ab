"""Runs one `sandrl reward` from its inputs to its report, without its presentation.

Everything that can be wrong with the input is checked before a runtime is contacted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sandrl.config.scoring import RewardConfig
from sandrl.errors import InputError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.jsonl import STANDARD_INPUT
from sandrl.problems import Completion, Problem, demo_completions, demo_problems, load_completions, load_problems
from sandrl.problems.completions import named_tasks
from sandrl.problems.loading import reading_of
from sandrl.problems.quality import QualityFilter
from sandrl.problems.store import CompletionStore
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
    quality = QualityFilter.of(request, settings)
    completions, problems = _load_checked(request, quality, emit)
    return score_run(
        request,
        lambda _: [completions],
        problems,
        settings,
        total=len(completions),
        command="reward",
        job_id=request.job_id,
        quality=quality,
        # The demo is there to be seen arriving out of order; its programs mostly sleep.
        least_concurrency=len(completions) if request.completions is None else 1,
        emit=emit,
        interrupt=interrupt,
    )


def estimate_reward(request: RewardConfig, settings: Settings) -> SandboxEstimate:
    quality = QualityFilter.of(request, settings)
    completions, problems = _load_checked(request, quality, ignore)
    return estimate_sandboxes(
        request,
        ScoreOptions.of(request).limits,
        settings,
        command="reward",
        counts=((problems[each.task_id], 1) for each in completions),
        service=request.service,
        quality=quality,
    )


def _load_checked(
    request: RewardConfig, quality: QualityFilter | None, emit: Emit
) -> tuple[Sequence[Completion], Mapping[str, Problem]]:
    if request.completions is None:
        for field in ("problems", "fields", "completion_fields", "language", "prelude", "min_quality"):
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
        quality=quality,
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
    left = completions.completions
    if quality is not None:
        quality.tell(request.problems, emit)
        left = _answering(left, problems.problems, quality, request.completions, emit)
    return left, problems.problems


def _answering(
    completions: Sequence[Completion],
    problems: Mapping[str, Problem],
    quality: QualityFilter,
    source: str,
    emit: Emit,
) -> Sequence[Completion]:
    # Those that answer a problem that was not left out.
    kept = CompletionStore()
    others: dict[str, str] = {}
    for each in completions:
        if each.task_id in problems:
            kept.add(each)
        elif (why := quality.why_left_out(each.task_id)) is not None:
            others.setdefault(each.task_id, why)
    if left_out := len(completions) - len(kept):
        name, why = next(iter(others.items()))
        message = (
            f"{left_out} of {len(completions)} completions are left out with their problems (first: {name}: {why})"
        )
        if not kept:
            raise InputError(message, path=source, hint="use a lower `min_quality`", fields=("min_quality",))
        emit(Warned(message))
    return kept.named()
