"""Converts a command's options to a training request, or to the error that explains why the training cannot run.

The parts of a training share its `Context`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from pydantic import JsonValue

from sandrl.config.grpo import GrpoConfig
from sandrl.config.words import OWN_TEMPLATE, TINY
from sandrl.errors import MissingExtraError, ServiceError, UsageError
from sandrl.events import Emit, ignore
from sandrl.models import libraries
from sandrl.models.description import ModelDescription, check_template_alone, describe
from sandrl.models.places import ModelPlace, find_model
from sandrl.problems import ANSWER_INSTRUCTION, SUBMIT_INSTRUCTION, TASK_INSTRUCTION, Problem
from sandrl.problems.loading import reading_of
from sandrl.problems.profile import Profile
from sandrl.problems.prompting import Prompting
from sandrl.problems.quality import QualityFilter
from sandrl.problems.schedule import Schedule, has_own_order, schedule_of
from sandrl.problems.splits import Splits
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.rollouts.calls import tool_schemas
from sandrl.rollouts.episodes import has_tasks
from sandrl.rollouts.task_tools import TASK_TOOLS
from sandrl.rollouts.tools import TOOLS
from sandrl.runs.config import Origin
from sandrl.runs.processes import Processes
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import Settings
from sandrl.tiny import find_tiny_policy
from sandrl.tiny.chat import SPECIAL_TOKENS
from sandrl.trainers.arguments import checked_fields, most_calls, trl_arguments
from sandrl.trainers.batches import fitted
from sandrl.trainers.checkpoints import checkpoint_directory, last_checkpoint
from sandrl.trainers.config import MAY_CHANGE, resolve, resumed, splits_of
from sandrl.trainers.interrupts import TrainingInterrupt
from sandrl.trainers.loaders import TRL, Loader, check_lora, with_adapters
from sandrl.trainers.origin import initial_weights


@dataclass(frozen=True, slots=True)
class GrpoRequest:
    """What to train.

    Attributes:
        resume: The directory of the run to resume.
        sets: Its problems, if they are loaded already.
        origin: The checkpoint of another run that it starts from.
    """

    config: GrpoConfig
    loader: Loader = TRL
    resume: Path | None = None
    sets: Splits | None = None
    origin: Origin | None = None

    def splits(self, settings: Settings) -> Splits:
        if self.sets is not None:
            return self.sets
        return splits_of(
            self.config,
            QualityFilter.of(self.config, settings, resume=self.resume),
            Profile.of(self.config, settings, resume=self.resume),
        )


@dataclass(frozen=True, slots=True)
class Context:
    """What all parts of a training with TRL share.

    Attributes:
        description: The policy; None before it was looked at.
    """

    config: GrpoConfig
    settings: Settings
    sets: Splits
    processes: Processes
    interrupt: TrainingInterrupt
    emit: Emit
    loader: Loader = TRL
    prompting: Prompting = field(default_factory=Prompting)
    description: ModelDescription | None = None

    @property
    def own_settings(self) -> Mapping[str, JsonValue]:
        """The policy's own generation settings, which are not applied."""
        return {} if self.description is None else self.description.own_settings

    @property
    def plays_tasks(self) -> bool:
        """Whether the policy works on tasks with tools."""
        return self.config.rollout == "tools" and has_tasks(self.sets.all.values())

    def schedule(self, *, always: bool = False) -> Schedule | None:
        """The order of the training problems; None if the trainer's own is as good, unless it is wanted `always`."""
        config, sets = self.config, self.sets
        if not always and not has_own_order(config, sets.parts):
            return None
        rates = None if sets.profile is None else sets.profile.rates
        return schedule_of(config, sets.parts, rates=rates, seed=config.seed, length=config.steps * config.groups)

    @property
    def most_calls(self) -> int:
        return most_calls(self.config, self.sets)

    def question(self, problem: Problem) -> list[dict[str, str]]:
        """The conversation that the policy is to continue."""
        instruction = ANSWER_INSTRUCTION
        if self.config.rollout == "tools":
            instruction = TASK_INSTRUCTION if self.plays_tasks else SUBMIT_INSTRUCTION
        return self.prompting.messages(problem, instruction=instruction, extraction=self.config.extract)

    @property
    def _questions(self) -> Iterator[tuple[str, list[dict[str, str]]]]:
        return ((problem.task_id, self.question(problem)) for problem in self.sets.all.values())

    @property
    def _variables(self) -> dict[str, Any]:
        return libraries.keywords(self.config.trl_fields, "chat_template_kwargs")

    @property
    def _tools(self) -> tuple[dict[str, Any], ...]:
        if self.config.rollout != "tools":
            return ()
        return tool_schemas(TASK_TOOLS if self.plays_tasks else TOOLS[self.config.tools])

    def check_template(self) -> None:
        """Makes sure that the tiny policy, which is yet to be made, can be asked with the template of a file.

        Raises:
            InputError: If not.
        """
        variables = {**SPECIAL_TOKENS, **self._variables}
        name, text = self.config.chat_template, self.prompting.chat_template
        check_template_alone(name, text, self._questions, variables=variables, tools=self._tools)

    def described(self, place: ModelPlace) -> Self:
        """The same with a description of the policy at a place, once it is known that it can be asked and trained.

        Raises:
            UsageError: If not.
        """
        config = self.config
        description = describe(
            place,
            name=config.model,
            chat_template=config.chat_template,
            template_text=self.prompting.chat_template,
            has_tools=config.rollout == "tools",
        )
        description.check(self._questions, max_tokens=config.max_tokens, variables=self._variables, tools=self._tools)
        if config.lora:
            check_lora(description)
        return replace(self, description=description)


@dataclass(frozen=True, slots=True)
class GrpoPlan:
    """What a run would do.

    Attributes:
        completions_per_pass: Completions in one forward and backward pass of a process.
        origin: The checkpoint of another run that it would begin with.
        estimate: What it would take in sandboxes.
        template: The chat template of the policy, in the words of `chat_template`.
    """

    config: GrpoConfig
    sets: Splits
    processes: int
    completions_per_pass: int
    on_gpu: bool
    first_step: int
    estimate: SandboxEstimate
    origin: Origin | None = None
    template: str = OWN_TEMPLATE


def make_plan(
    given: Mapping[str, JsonValue],
    settings: Settings,
    *,
    loader: Loader = TRL,
    file: Mapping[str, JsonValue] | None = None,
    resume: str | None = None,
) -> GrpoRequest:
    """Makes a request of the options of the command line and of the file of `--config`, by the names of `GrpoConfig`.

    Raises:
        UsageError: If something does not fit, or a run that goes on would change.
    """
    content = file or {}
    if resume is not None and given.get("init_from") is not None:
        message = "resume continues a run with its own weights, and init_from starts a new run: give only one of them"
        raise UsageError(message, fields=("resume", "init_from"))
    words = {**content, **given}
    beginning = initial_weights(words, settings)
    chosen = {} if beginning is None else beginning.choice()
    if resume is None:
        model = chosen.get("model") or words.get("model") or (loader.model if libraries.has_gpu() else TINY)
        further = {**loader.defaults(is_tiny=model == TINY), **({} if beginning is None else beginning.defaults())}
        config = resolve({**given, **chosen}, content, default_model=str(model), further=further)
        config = _with_typed_fields(with_adapters(config, words), loader, settings)
        request = GrpoRequest(config, loader, origin=None if beginning is None else beginning.origin)
        return request if "batch_size" in words else _with_fitting_batch(request, settings)
    run, saved, wanted = resumed(
        GrpoConfig,
        resume,
        given,
        settings,
        command=loader.command,
        file=content,
        chosen=chosen,
        complete=lambda config: _with_typed_fields(config, loader, settings),
        may_change=MAY_CHANGE,
    )
    if wanted.steps < saved.steps:
        message = f"steps: the run {run.name!r} has {saved.steps}; steps can be raised, not lowered to {wanted.steps}"
        raise UsageError(message, fields=("steps",))
    return GrpoRequest(wanted, loader, resume=run)


def check_plan(request: GrpoRequest, settings: Settings) -> GrpoPlan:
    """Checks everything that can be checked without a policy, a sandbox or a run directory.

    Raises:
        UsageError: If the configuration cannot work.
    """
    config = request.config
    sets = request.splits(settings)
    request.loader.prepare(settings)
    with libraries.kept_quiet():
        arguments = trl_arguments(config, sets, world_size=settings.world_size)
    prompting = Prompting.of(config, sets.train, reading_of(config))
    context = Context(config, settings, sets, Processes(), TrainingInterrupt(), ignore, request.loader, prompting)
    place = _place(config, settings)
    template = config.chat_template or OWN_TEMPLATE
    if place is None:
        context.check_template()
    elif (described := context.described(place).description) is not None:
        template = described.template.name
    begin = None if request.resume is None else last_checkpoint(checkpoint_directory(config, request.resume))
    first_step = 0 if begin is None else begin.step
    return GrpoPlan(
        config,
        sets=sets,
        processes=settings.world_size,
        completions_per_pass=arguments.per_device_train_batch_size,
        on_gpu=libraries.has_gpu(),
        first_step=first_step,
        estimate=_estimate(request, sets, settings, first_step=first_step),
        origin=request.origin,
        template=template,
    )


def _place(config: GrpoConfig, settings: Settings) -> ModelPlace | None:
    # Where the policy is; None for the tiny policy that is yet to be made.
    if not config.is_tiny:
        return find_model(config.model)
    path = find_tiny_policy(settings.cache_dir, seed=config.seed)
    return None if path is None else ModelPlace(str(path), is_directory=True, is_offline=True)


def _estimate(request: GrpoRequest, sets: Splits, settings: Settings, *, first_step: int) -> SandboxEstimate:
    config = request.config
    steps = max(config.steps - first_step, 0)
    of_steps = steps * config.batch_size
    evaluations = sum(config.is_evaluated_after(step) for step in range(first_step, config.steps + 1))
    answers = evaluations * (config.eval_samples + config.has_greedy_answers)
    wanted = [(problem, answers) for problem in sets.evaluation.values()]
    share, rest = divmod(of_steps, max(len(sets.train), 1))
    wanted += [(problem, share + (place < rest)) for place, problem in enumerate(sets.train.values())]
    works = config.rollout == "tools" and not has_tasks(sets.all.values())
    episodes = of_steps + answers * len(sets.evaluation) if works else 0
    return estimate_sandboxes(
        config,
        ScoreOptions.of(config).limits,
        settings,
        command=request.loader.command,
        counts=wanted,
        episode_sandboxes=episodes,
        run=request.resume,
        is_open_ended=True,
        quality=sets.quality,
    )


def _with_fitting_batch(request: GrpoRequest, settings: Settings) -> GrpoRequest:
    try:
        sets = request.splits(settings)
    except (ServiceError, MissingExtraError):
        # `--print-config` needs no hub; the plan and the run load the problems again, and report it.
        return request
    config = fitted(request.config, len(sets.train), processes=settings.world_size)
    return replace(request, config=config, sets=sets)


def _with_typed_fields(config: GrpoConfig, loader: Loader, settings: Settings) -> GrpoConfig:
    if not config.trl_fields:
        return config
    loader.prepare(settings)
    with libraries.kept_quiet():
        fields = checked_fields(config.trl_fields, libraries.load("trl").GRPOConfig)
    return config.model_copy(update={"set": fields})
