"""Checks options, hardware, keys, problems and endpoints before a training starts.

The same function runs for a training and for `--dry-run`, so a dry run reports exactly the errors that the training
would report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

from sandrl.bounds import LARGEST_WEIGHT
from sandrl.config.art import ArtBackendKind, ArtPolicy, ArtTrainConfig
from sandrl.config.words import OWN_TEMPLATE
from sandrl.errors import AuthenticationError, InputError, UsageError
from sandrl.events import Emit, Warned, ignore
from sandrl.models import Sampling
from sandrl.models.client import OPENAI_BASE_URL, ModelEndpoint
from sandrl.models.description import describe
from sandrl.models.endpoint import EndpointModel
from sandrl.models.in_process import template_variables
from sandrl.models.libraries import check_gpu
from sandrl.models.places import find_model
from sandrl.problems import Problem, load_problems
from sandrl.problems.loading import reading_of
from sandrl.problems.mixture import sources_of
from sandrl.problems.profile import Profile
from sandrl.problems.prompting import Prompting
from sandrl.problems.quality import QualityFilter
from sandrl.problems.schedule import Part, Schedule, schedule_of, too_short_note
from sandrl.problems.splits import TrainingSet, check_names, training_set, training_split
from sandrl.rollouts.episodes import EpisodeOptions, is_mixed
from sandrl.rollouts.tools import HAS_MIXED_TOOLS
from sandrl.runs import RunReader
from sandrl.runs.config import TOOL_SCHEMAS
from sandrl.runs.directory import checked_run_name
from sandrl.runs.resumption import content_digest
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import Settings
from sandrl.trainers.art import libraries, serverless
from sandrl.trainers.art.groups import Group, groups_of_rows
from sandrl.trainers.art.service import TINY_RENDERER, check_base_model, check_renderer, check_tinker, tinker_address
from sandrl.trainers.batches import no_further_problems
from sandrl.trainers.loaders import check_lora
from sandrl.trainers.tinker.embedded import embedded_model
from sandrl.trainers.tinker.options import EXTRA

COMMAND = "art-train"


@dataclass(frozen=True, slots=True)
class ArtRequest:
    """What to train, which run to resume, and why by that backend, in a few words."""

    config: ArtTrainConfig
    resume: Path | None = None
    why: str = "requested"

    @property
    def recorded(self) -> Path | None:
        """The directory of the run whose episodes are trained on."""
        return None if self.config.trajectories is None else Path(self.config.trajectories)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a training begins with.

    Attributes:
        config: How it trains, with what was found out where nothing was said: the teacher, its address, the renderer.
        problems: What it is about; empty if episodes are recorded.
        recorded: The groups of each recorded step, in order; empty if episodes are run.
        tools: The tools that are or were offered, as JSON schemas of functions.
        teacher: Where a teacher is asked; None without one.
        model: What the backend calls the model: of the tiny policy, its directory.
        notes: Lines for the user.
        chat_template: The template of the model, where it is not its own; None for its own, and with a renderer.
        quality: What has left out problems; None if nothing has.
        parts: The problems' names by source, with the weights of a mixture.
        profile: The pass rates by which they are chosen; None without any.
    """

    config: ArtTrainConfig
    problems: tuple[Problem, ...]
    recorded: tuple[tuple[Group, ...], ...]
    tools: tuple[Mapping[str, Any], ...]
    teacher: ModelEndpoint | None
    model: str
    notes: tuple[str, ...]
    prompting: Prompting
    quality: QualityFilter | None = None
    chat_template: str | None = None
    parts: tuple[Part, ...] = ()
    profile: Profile | None = None

    def schedule(self) -> Schedule:
        """The order in which the problems are taken: without options their own."""
        config = self.config
        rates = None if self.profile is None else self.profile.rates
        return schedule_of(config, self.parts, rates=rates, length=config.steps * config.groups)

    @property
    def digest(self) -> str:
        """Stands for the content of the problems, or of the recorded episodes."""
        if self.recorded:
            content = [[(each.id, each.reward) for each in group.samples] for step in self.recorded for group in step]
            return content_digest(content)
        return content_digest([*(each.content for each in self.problems), *self.prompting.content()])


def check(request: ArtRequest, settings: Settings, *, spends: bool, emit: Emit = ignore) -> CheckResult:
    """Finds out what can be wrong; `spends`: a few tokens may be spent for that, and the tiny policy be made.

    Raises:
        UsageError: If options, problems, extras or hardware do not fit.
        ServiceError: If a service does not answer, or refuses.
    """
    # The libraries print what they think of a model; it is no result of ours.
    with libraries.kept_quiet(), redirect_stdout(StringIO()):
        return _check(request, settings, spends=spends, emit=emit)


def _check(request: ArtRequest, settings: Settings, *, spends: bool, emit: Emit) -> CheckResult:
    config = request.config
    ScoreOptions.of(config)
    if request.resume is None:
        _check_name(config, settings)
    backend = _check_backend(request, settings)
    recorded = _recorded(request)
    quality = None if recorded else QualityFilter.of(config, settings, resume=request.resume)
    profile = None if recorded else Profile.of(config, settings, resume=request.resume)
    training = TrainingSet({}, ()) if recorded else _problems(config, quality, profile, emit)
    problems = tuple(training.problems.values())
    if quality is not None:
        quality.tell(next(iter(sources_of(config.problems))), emit)
    prompting = Prompting.of(config, {each.task_id: each for each in problems}, reading_of(config))
    options = EpisodeOptions.of(config, prompting)
    tools = options.offered(problems)
    if request.recorded is not None:
        tools = _offered(RunReader(request.recorded).config.options)
    elif is_mixed([each for each in problems if options.has_tools(each)]):
        raise UsageError(
            "problems: has tasks and other problems, whose tools differ, and a model is trained with one set of tools",
            hint="train on the tasks in a run of their own, or use `rollout` attempts",
            fields=("problems", "rollout"),
        )
    teacher = None
    actor = f"recorded in the run {config.trajectories}"
    if not recorded:
        actor = f"{config.base_model} itself, as it is after each step"
        if config.policy is ArtPolicy.TEACHER:
            teacher = _teacher(config, settings)
            EndpointModel(teacher, config.teacher, Sampling.of(config)).check()
            actor = f"{config.teacher} at {teacher.base_url}"
            config = config.model_copy(update={"model": config.teacher, "base_url": teacher.base_url})
    model = config.base_model
    if config.backend is ArtBackendKind.TINKER:
        check_base_model(config.base_model, settings, scores=spends and config.policy is ArtPolicy.TEACHER)
    elif config.backend is ArtBackendKind.EMBEDDED:
        model = embedded_model(config, settings, makes=spends, emit=emit)
    if config.backend in (ArtBackendKind.TINKER, ArtBackendKind.EMBEDDED):
        # The tiny policy that is yet to be made has the renderer of every other one.
        name = check_renderer(config, model, tools) if model else TINY_RENDERER
        config = config.model_copy(update={"renderer": name})
        backend = f"{backend}, renderer {config.renderer}"
    template = _template(config, prompting, problems, tools) if config.backend is ArtBackendKind.LOCAL else None
    names = ", ".join(tool["name"] for tool in tools)
    notes = (
        f"Backend: {backend}; trains {config.base_model}, {_weights(config)}",
        f"Episodes: {actor}" + (f"; scored under {config.base_model}" if config.policy is ArtPolicy.TEACHER else ""),
        f"Tools: {names}" if tools else f"Attempts: up to {config.max_attempts} in an episode",
        *(f"Note: {note}" for note in training.notes),
    )
    return CheckResult(
        config,
        problems,
        recorded,
        tools,
        teacher,
        model,
        notes,
        prompting,
        quality,
        chat_template=template,
        parts=training.parts,
        profile=profile,
    )


def _template(
    config: ArtTrainConfig, prompting: Prompting, problems: Sequence[Problem], tools: Sequence[Mapping[str, Any]]
) -> str | None:
    # The chat template that ART is to use, if not the model's own; the model can then be asked and trained.
    description = describe(
        find_model(config.base_model),
        chat_template=config.chat_template,
        template_text=prompting.chat_template,
        has_tools=bool(tools),
    )
    description.check(
        ((each.task_id, prompting.messages(each, extraction=config.extract)) for each in problems),
        max_tokens=config.max_tokens,
        variables=template_variables(config.extra_body),
        tools=tools,
        has_feedback=not tools and config.max_attempts > 1,
    )
    if config.lora:
        check_lora(description)
    return None if description.template.name == OWN_TEMPLATE else description.template.text


def _weights(config: ArtTrainConfig) -> str:
    if config.backend is ArtBackendKind.SERVERLESS:
        return "LoRA"
    return f"LoRA of rank {config.lora_rank}" if config.lora else "all weights"


def _check_name(config: ArtTrainConfig, settings: Settings) -> None:
    directory = config.runs_dir or settings.runs_dir
    if (directory / checked_run_name(config.run_name)).exists():
        raise UsageError(
            f"the run {config.run_name!r} already exists in {directory}",
            hint=f"resume it (sandrl art train --resume {config.run_name}), or choose another run_name",
            fields=("run_name",),
        )


def _check_backend(request: ArtRequest, settings: Settings) -> str:
    config = request.config
    if config.backend is ArtBackendKind.LOCAL:
        check_gpu()
        libraries.check_installed("art-local")
        return "local, on a GPU of this machine"
    if config.backend is ArtBackendKind.SERVERLESS:
        libraries.check_installed(serverless.EXTRA)
        serverless.check_serverless(config, settings)
        return f"serverless, W&B Training at {serverless.serverless_address(settings)}"
    libraries.check_installed(EXTRA)
    if config.backend is ArtBackendKind.EMBEDDED:
        return f"embedded Tinker service ({request.why})"
    check_tinker(settings)
    return f"tinker at {tinker_address(settings)}, with {settings.tinker_api_key_source}"


def _problems(
    config: ArtTrainConfig, quality: QualityFilter | None, profile: Profile | None, emit: Emit
) -> TrainingSet:
    notes: dict[str, None] = {}

    def load(source: str) -> Mapping[str, Problem]:
        loaded = load_problems(source, skip_bad_rows=config.skip_bad_rows, quality=quality, **reading_of(config))
        notes.update({loaded.note: None} if loaded.note else {})
        return loaded.problems

    weights = sources_of(config.problems)
    sources = {source: load(training_split(source)) for source in weights}
    check_names(sources)
    found = training_set(
        sources,
        weights,
        source=config.problems,
        deduplicate=config.deduplicate,
        profile=profile,
        num_problems=config.num_problems,
    )
    if note := too_short_note(config, found.parts):
        found = replace(found, notes=(*found.notes, note))
    for each in (*notes, *found.notes):
        emit(Warned(each))
    if len(found.problems) < config.groups:
        name, fits = ("num_problems", 1) if config.batch_size is None else ("batch_size", config.samples)
        raise InputError(
            f"has {len(found.problems)} problems, fewer than the {config.groups} groups of a step",
            path=config.problems,
            hint=f"use `{name}` {fits * len(found.problems)}",
            fields=(name,),
        )
    if config.dynamic_sampling and len(found.problems) == config.groups:
        raise no_further_problems(config.groups, config.episodes_per_step)
    return found


def _recorded(request: ArtRequest) -> tuple[tuple[Group, ...], ...]:
    config = request.config
    if request.recorded is None:
        return ()
    reader = RunReader(request.recorded)
    if reader.config.options.get(HAS_MIXED_TOOLS):
        raise InputError(
            "has episodes on tasks and on other problems, whose tools differ",
            path=request.recorded,
            hint="record the episodes on tasks in a run of their own",
        )
    kept = reader.trajectories()
    if kept.damaged:
        raise InputError(
            f"has {len(kept.damaged)} unreadable rows, so groups would be incomplete",
            path=request.recorded / "trajectories.jsonl",
            hint="run its episodes again",
        )
    if any(row.reward is not None and not abs(row.reward) <= LARGEST_WEIGHT for row in kept.rows):
        raise InputError(
            "has rewards outside the range of every reward policy", path=request.recorded / "trajectories.jsonl"
        )
    steps = tuple(groups_of_rows(kept.rows).values())
    if not steps:
        raise InputError(
            "has no episodes with messages and rewards to train on",
            path=request.recorded,
            hint="`sandrl art rollout` records such episodes",
        )
    if config.policy is ArtPolicy.TRAINED and not any(
        sample.has_logprobs for groups in steps for group in groups for sample in group.samples
    ):
        raise UsageError(
            f"policy trained needs logprobs with the tokens' ids, and the run {request.recorded.name!r} has none",
            hint="use `policy` teacher, which scores them again, or run new episodes without `trajectories`",
            fields=("policy", "trajectories"),
        )
    return steps


def _offered(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    kept = options.get(TOOL_SCHEMAS)
    schemas: Sequence[Any] = kept if isinstance(kept, list) else ()
    return tuple(each for each in schemas if isinstance(each, dict) and "name" in each)


def _teacher(config: ArtTrainConfig, settings: Settings) -> ModelEndpoint:
    address = config.base_url or settings.openai_base_url or OPENAI_BASE_URL
    if address == OPENAI_BASE_URL and settings.openai_api_key is None:
        raise AuthenticationError(
            f"OPENAI_API_KEY is not set, and the teacher {config.teacher} is served by OpenAI",
            hint="set it, give another endpoint with base_url, or use `policy` trained",
            fields=("base_url", "policy"),
        )
    return ModelEndpoint.of(config, address, settings.openai_api_key)
