"""Runs one `sandrl eval`: generates the answers of a model and scores them like any completion.

Answers are generated while previous ones are judged. The prompts are the ones of training, and the answers are scored
by the same code as a file of completions.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice
from pathlib import Path

from pydantic import JsonValue

from sandrl.config.eval import EvalConfig
from sandrl.config.words import OWN_TEMPLATE, TINY
from sandrl.errors import UsageError
from sandrl.evaluation.answers import Answers, all_samples, in_order
from sandrl.evaluation.episodes import evaluate_episodes
from sandrl.evaluation.request import EvalRequest, EvalRun
from sandrl.evaluation.resume import COMMAND, find_previous
from sandrl.events import Emit, ModelSettingsFound, PolicyAsked, TokenLimitFound, Warned, ignore
from sandrl.models import EndpointModel, Model, ModelEndpoint, Sampling, libraries
from sandrl.models.description import ModelDescription, check_template_alone, describe
from sandrl.models.generation import sampling_facts
from sandrl.models.in_process import InProcessModel, template_variables
from sandrl.models.places import ModelPlace, find_model
from sandrl.problems import Completion, Problem, load_problems
from sandrl.problems.loading import reading_of
from sandrl.problems.prompting import Prompting
from sandrl.problems.quality import QualityFilter
from sandrl.problems.store import select
from sandrl.rewards import score_run
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rollouts.episodes import EpisodeOptions, check_agent
from sandrl.rollouts.run import estimate_episodes
from sandrl.runs import RunWriter
from sandrl.runs.resumption import PROBLEMS_DIGEST, digest_of_all
from sandrl.sandboxes import Interrupt, SandboxRequest
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import Settings
from sandrl.tiny import find_tiny_policy, tiny_policy
from sandrl.tiny.chat import SPECIAL_TOKENS


class _Closed(threading.Event):
    def __init__(self, interrupt: Interrupt) -> None:
        super().__init__()
        self._interrupt = interrupt

    def is_set(self) -> bool:
        return super().is_set() or bool(self._interrupt.level)


def run_eval(
    request: EvalRequest, settings: Settings, *, emit: Emit = ignore, interrupt: Interrupt | None = None
) -> EvalRun:
    """Evaluates a model and leaves a run directory.

    Raises:
        UsageError: If an option or the input cannot be used, or something that it takes is not installed.
        ServiceError: If the hub, the endpoint, the runtime or the disk does not do its part.
    """
    interrupt = interrupt or Interrupt()
    config = request.config
    if config.service is None:
        SandboxRequest.of(config).allowance(settings, run=request.resume)
    quality = QualityFilter.of(config, settings, resume=request.resume)
    problems = _problems(config, quality, emit)
    prompting = Prompting.of(config, problems, reading_of(config))
    digest = _digest(problems, prompting)
    wanted = all_samples(problems, config.answers)
    previous = None if request.resume is None else find_previous(request.resume, config.problems, wanted, digest)
    left = wanted if previous is None else previous.missing(wanted)
    plays = _plays_episodes(config, problems)
    # Episodes in hand are finished; single answers are not waited for.
    closed = threading.Event() if plays else _Closed(interrupt)
    description = _description(config, settings, prompting, problems, plays=plays, emit=emit)
    model = _model(config, settings, description, closed, emit, lambda: bool(interrupt.level))
    if description is not None and description.template.name != OWN_TEMPLATE:
        config = config.model_copy(update={"chat_template": description.template.name})
    found: dict[str, JsonValue] = {"model": config.model or model.name, "samples": config.answers}
    config = config.model_copy(update=found if plays else {**found, "batch_size": model.batch_size})
    emit(PolicyAsked(model.name, len(problems), config.answers))
    facts: dict[str, JsonValue] = {PROBLEMS_DIGEST: digest, "token_limit": {**asdict(model.limit)}}
    if config.max_tokens is None:
        emit(TokenLimitFound(model.limit.tokens, model.limit.why))
    if isinstance(model, InProcessModel):
        own, are_used = model.own_settings, config.use_model_sampling
        facts |= sampling_facts(own, are_used=are_used)
        if own:
            emit(ModelSettingsFound(model.name, own, are_used=are_used))

    def batches(writer: RunWriter) -> Iterable[Sequence[Completion]]:
        return Answers(
            model,
            left,
            [] if previous is None else in_order(wanted, previous.answers),
            prompting=prompting,
            extraction=config.extract,
            seed=config.seed * len(wanted),
            writer=writer,
            closed=closed,
        ).batches()

    versions = {} if config.base_url else libraries.versions()
    resumed = None if previous is None else previous.resumed
    try:
        if plays:
            run = evaluate_episodes(
                config,
                model,
                left,
                problems,
                prompting,
                settings,
                command=COMMAND,
                total=len(wanted),
                facts=facts,
                versions=versions,
                resumed=resumed,
                quality=quality,
                stop=closed,
                emit=emit,
                interrupt=interrupt,
            )
        else:
            run = score_run(
                config,
                batches,
                problems,
                settings,
                total=len(wanted),
                command=COMMAND,
                tags=(COMMAND, f"model:{model.name}"),
                facts=facts,
                versions=versions,
                prompting=prompting,
                numbers={each.id: each.index for each in wanted},
                resumed=resumed,
                quality=quality,
                emit=emit,
                interrupt=interrupt,
            )
    finally:
        closed.set()
        model.close()
    return EvalRun(model.name, len(problems), config, run, model.limit.tokens)


# Whether answers are episodes: with tools, or in attempts that have feedback.
def _plays_episodes(config: EvalConfig, problems: Mapping[str, Problem]) -> bool:
    options = EpisodeOptions.of(config, Prompting())
    if options.agent is not None:
        check_agent(problems.values())
    has_tools = any(map(options.has_tools, problems.values()))
    if has_tools and config.service is not None:
        raise UsageError(
            "service: runs no episodes, and tasks are worked on with tools",
            hint="use `rollout` attempts for single answers, or leave service out",
            fields=("service", "rollout"),
        )
    return has_tools or config.max_attempts > 1


def estimate_eval(request: EvalRequest, settings: Settings) -> SandboxEstimate:
    """What evaluating a model would take in sandboxes; the model is neither loaded nor asked.

    Raises:
        UsageError: If an option or the input cannot be used.
    """
    config = request.config
    quality = QualityFilter.of(config, settings, resume=request.resume)
    problems = _problems(config, quality)
    prompting = Prompting.of(config, problems, reading_of(config))
    plays = _plays_episodes(config, problems)
    _description(config, settings, prompting, problems, plays=plays)
    wanted = all_samples(problems, config.answers)
    if request.resume is not None:
        digest = _digest(problems, prompting)
        previous = find_previous(request.resume, config.problems, wanted, digest)
        scored = {result.index for result in previous.resumed.results}
        wanted = [each for each in wanted if each.index not in scored]
    counts = Counter(each.task_id for each in wanted)
    if plays:
        return estimate_episodes(
            config,
            settings,
            command=COMMAND,
            counts=[(problems[task_id], count) for task_id, count in counts.items()],
            run=request.resume,
            quality=quality,
        )
    return estimate_sandboxes(
        config,
        ScoreOptions.of(config).limits,
        settings,
        command=COMMAND,
        counts=((problems[task_id], count) for task_id, count in counts.items()),
        run=request.resume,
        # Workers exist while the model answers.
        is_open_ended=config.has_cells,
        service=config.service,
        quality=quality,
    )


def problems_digest(config: EvalConfig, settings: Settings, run: Path) -> str:
    """Stands for the content of an evaluation's problems and prompts: `problems_digest` of its run."""
    problems = _problems(config, QualityFilter.of(config, settings, resume=run))
    return _digest(problems, Prompting.of(config, problems, reading_of(config)))


def _problems(config: EvalConfig, quality: QualityFilter | None, emit: Emit = ignore) -> Mapping[str, Problem]:
    loaded = load_problems(config.problems, skip_bad_rows=config.skip_bad_rows, quality=quality, **reading_of(config))
    if loaded.note:
        emit(Warned(loaded.note))
    if quality is not None:
        quality.tell(config.problems, emit)
    return select(loaded.problems, islice(loaded.problems, config.num_problems))


def _digest(problems: Mapping[str, Problem], prompting: Prompting) -> str:
    return digest_of_all(chain((each.content for each in problems.values()), prompting.content()))


def _description(
    config: EvalConfig,
    settings: Settings,
    prompting: Prompting,
    problems: Mapping[str, Problem],
    *,
    plays: bool,
    emit: Emit | None = None,
) -> ModelDescription | None:
    # The model in this process, once it can be asked; None for an endpoint, and for the tiny policy if it is not made
    # yet and is not to be (`emit`).
    if config.base_url is not None:
        return None
    name = config.model or TINY
    variables = template_variables(config.extra_body)
    questions = ((each.task_id, prompting.messages(each, extraction=config.extract)) for each in problems.values())
    if name == TINY:
        cache, seed = settings.cache_dir, config.seed
        path = find_tiny_policy(cache, seed=seed) if emit is None else tiny_policy(cache, seed=seed, emit=emit)
        if path is None:
            given = {**SPECIAL_TOKENS, **variables}
            check_template_alone(config.chat_template, prompting.chat_template, questions, variables=given)
            return None
        place = ModelPlace(str(path), is_directory=True, is_offline=True)
    else:
        place = find_model(name)
    description = describe(place, name=name, chat_template=config.chat_template, template_text=prompting.chat_template)
    options = EpisodeOptions.of(config, prompting)
    description.check(
        questions,
        max_tokens=config.max_tokens,
        variables=variables,
        has_feedback=plays and not any(map(options.has_tools, problems.values())),
    )
    if emit is not None and (remark := description.remark(config.chat_template)) is not None:
        emit(Warned(remark))
    return description


def _model(
    config: EvalConfig,
    settings: Settings,
    description: ModelDescription | None,
    closed: threading.Event,
    emit: Emit,
    is_stopping: Callable[[], bool],
) -> Model:
    sampling = replace(Sampling.of(config), use_own=config.use_model_sampling)
    if config.base_url is not None:
        endpoint = ModelEndpoint.of(config, config.base_url, settings.openai_api_key)
        model = EndpointModel(
            endpoint,
            config.model,
            sampling,
            stop=closed,
            batch_size=config.batch_size,
            emit=emit,
            is_stopping=is_stopping,
        )
        model.check()
        return model
    assert description is not None, "a model in this process is described"
    name = TINY if description.name == TINY else None
    return InProcessModel(description, sampling, name=name, batch_size=config.batch_size, stop=closed)
