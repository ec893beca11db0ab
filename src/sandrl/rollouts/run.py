"""Runs episodes step by step: which model, which problems, which runtime, and what is saved.

Everything that can be wrong is checked before the first token is paid for: the options, the problems, the endpoint and
its model, the runtime. A trajectory is written to the run directory before its event is emitted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue

from sandrl.addresses import VLLM_BASE_URL
from sandrl.config.episodes import EpisodesConfig, RolloutConfig, at_once
from sandrl.config.eval import EvalConfig
from sandrl.errors import AuthenticationError
from sandrl.events import Emit, RolloutStarted, RolloutStepFinished, TokenLimitFound, Warned, ignore
from sandrl.models import OPENAI_BASE_URL, EndpointModel, ModelEndpoint, Sampling
from sandrl.models.protocol import Player
from sandrl.problems import Problem, load_problems
from sandrl.problems.loading import reading_of
from sandrl.problems.prompting import Prompting
from sandrl.problems.quality import QualityFilter
from sandrl.problems.splits import training_split
from sandrl.problems.store import select
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rewards.scored_run import open_job_run
from sandrl.rollouts.episodes import EpisodeOptions, check_player, has_tasks, is_mixed
from sandrl.rollouts.results import PlayedStep, RolloutRun
from sandrl.rollouts.steps import EPISODE_SECONDS, StepPlayer, problems_of
from sandrl.rollouts.tools import HAS_MIXED_TOOLS
from sandrl.runs.config import TOOL_SCHEMAS
from sandrl.runs.summary import summarise
from sandrl.sandboxes import Interrupt, SandboxRequest
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.summary import LONGER_ANSWERS, truncation_warning
from sandrl.settings import Settings

COMMAND = "art-rollout"


MakePlayer: TypeAlias = Callable[[RolloutConfig, Settings, threading.Event, Emit], Player]
"""Makes the model that plays: of the configuration, the settings, an event that says when answers are not wanted any
more, and the function that is told what happens."""


def run_rollouts(
    request: RolloutConfig,
    settings: Settings,
    *,
    make: MakePlayer | None = None,
    emit: Emit = ignore,
    interrupt: Interrupt | None = None,
) -> RolloutRun:
    """Plays episodes and leaves a run directory with their trajectories; `make` replaces the endpoint's model."""
    interrupt = interrupt or Interrupt()
    ScoreOptions.of(request)
    source = training_split(request.problems)
    quality = QualityFilter.of(request, settings)
    loaded, problems = _problems(request, quality, emit)
    if quality is not None:
        quality.tell(source, emit)
    prompting = Prompting.of(request, loaded, reading_of(request))
    options = EpisodeOptions.of(request, prompting)
    concurrency = at_once(request, request.samples * request.problems_per_step, has_tasks=has_tasks(problems.values()))
    stop = threading.Event()
    SandboxRequest.of(request).allowance(settings)
    model = (make or partial(_at_endpoint, interrupt))(request, settings, stop, emit)
    check_player(model, problems.values(), options)
    facts: dict[str, JsonValue] = {
        "model": model.name,
        "base_url": model.base_url if isinstance(model, EndpointModel) else None,
        "problems": source,
        TOOL_SCHEMAS: [dict(each) for each in options.offered(problems.values())],
        HAS_MIXED_TOOLS: is_mixed([each for each in problems.values() if options.has_tools(each)]),
    }
    with open_job_run(
        request,
        problems,
        settings,
        command=COMMAND,
        tags=(COMMAND, f"model:{request.model_name}"),
        facts=facts,
        project=request.project,
        quality=quality,
        episode_seconds=EPISODE_SECONDS,
        emit=emit,
        interrupt=interrupt,
    ) as run:
        session, tell, recorder, job = run.session, run.tell, run.recorder, run.job
        assert job is not None, "episodes have sandboxes"
        writer = session.writer
        # Before the job ends: who waits for an endpoint must not come back to a job that is over.
        session.stack.callback(stop.set)
        session.stack.callback(model.close)
        player = StepPlayer(
            request,
            options,
            job=job,
            writer=writer,
            emit=tell,
            interrupt=interrupt,
            stop=stop,
            concurrency=concurrency,
        )
        tell(
            RolloutStarted(
                writer.run_id,
                model=request.model_name,
                problems=len(problems),
                steps=request.steps,
                episodes=request.episodes,
                concurrency=concurrency,
            )
        )
        played: list[PlayedStep] = []
        names = list(problems)
        for step in range(request.steps):
            of_step = [problems[name] for name in problems_of(step, request.problems_per_step, names)]
            done = player.play(step, of_step, request.samples, model)
            played.append(done)
            recorder.log(step, {**done.metrics, "step_seconds": done.seconds})
            tell(
                RolloutStepFinished(step, done.mean_reward, done.passed, len(done.rewards), done.dropped, done.seconds)
            )
            if interrupt.level:
                break
        summary = summarise([result for each in played for result in each.results])
        if (warning := truncation_warning(summary, hint=LONGER_ANSWERS)) is not None:
            tell(warning)
    return RolloutRun(
        job.id,
        writer.path,
        request.model_name,
        steps=tuple(played),
        of=request.steps,
        signal_number=interrupt.signal_number,
        cleanup_error=session.cleanup_error(),
        held=session.held(),
        exhausted=session.exhausted,
    )


def estimate_rollouts(request: RolloutConfig, settings: Settings) -> SandboxEstimate:
    """What playing the episodes would take in sandboxes; no model is asked, and nothing is started.

    Raises:
        UsageError: If an option or the input cannot be used.
    """
    quality = QualityFilter.of(request, settings)
    _, problems = _problems(request, quality)
    return estimate_episodes(
        request,
        settings,
        command=COMMAND,
        counts=in_turn(list(problems.values()), request.steps * request.episodes),
        quality=quality,
    )


def in_turn(problems: Sequence[Problem], episodes: int) -> list[tuple[Problem, int]]:
    """How many of so many episodes in all each problem gets, if they take turns."""
    share, rest = divmod(episodes, max(len(problems), 1))
    return [(each, share + (place < rest)) for place, each in enumerate(problems)]


def estimate_episodes(
    config: EpisodesConfig | EvalConfig,
    settings: Settings,
    *,
    command: str,
    counts: Sequence[tuple[Problem, int]],
    run: Path | None = None,
    quality: QualityFilter | None = None,
) -> SandboxEstimate:
    """The sandboxes that so many episodes on each problem would use; `run` is the one that goes on.

    Raises:
        BudgetError: If earlier jobs of the run have used the budget up.
        UsageError: If an option, or the budget, cannot be used.
    """
    options = EpisodeOptions.of(config, Prompting())
    # An episode with tools is judged once, in the machine of the task if it is on one; else each attempt is.
    judged = [(each, count * (1 if options.has_tools(each) else config.max_attempts)) for each, count in counts]
    works = sum(count for each, count in counts if options.has_tools(each) and each.task is None)
    return estimate_sandboxes(
        config,
        ScoreOptions.of(config).limits,
        settings,
        command=command,
        counts=judged,
        episode_sandboxes=works,
        run=run,
        is_open_ended=True,
        quality=quality,
    )


def _problems(
    request: RolloutConfig, quality: QualityFilter | None, emit: Emit = ignore
) -> tuple[Mapping[str, Problem], Mapping[str, Problem]]:
    source = training_split(request.problems)
    found = load_problems(source, skip_bad_rows=request.skip_bad_rows, quality=quality, **reading_of(request))
    if found.note:
        emit(Warned(found.note))
    loaded = found.problems
    return loaded, select(loaded, islice(loaded, request.num_problems or None))


def _at_endpoint(
    interrupt: Interrupt, request: RolloutConfig, settings: Settings, stop: threading.Event, emit: Emit
) -> Player:
    endpoint, sampling = find_endpoint(request, settings), Sampling.of(request)
    model = EndpointModel(
        endpoint, request.model_name, sampling, stop=stop, emit=emit, is_stopping=lambda: bool(interrupt.level)
    )
    model.check()
    if request.max_tokens is None:
        emit(TokenLimitFound(model.limit.tokens, model.limit.why))
    return model


def find_endpoint(request: RolloutConfig, settings: Settings) -> ModelEndpoint:
    """Where the model is asked: what the user says, else the environment, else OpenAI or a server of one's own.

    Raises:
        AuthenticationError: If it is OpenAI's and there is no key.
        UsageError: If the address is none.
    """
    usual = OPENAI_BASE_URL if request.use_openai else VLLM_BASE_URL
    address = request.base_url or settings.openai_base_url or usual
    if address == OPENAI_BASE_URL and settings.openai_api_key is None:
        raise AuthenticationError(
            "OPENAI_API_KEY is not set", hint="set it, or choose another endpoint with base_url", fields=("base_url",)
        )
    return ModelEndpoint.of(request, address, settings.openai_api_key)
