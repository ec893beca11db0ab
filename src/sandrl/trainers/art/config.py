"""What a training with ART is asked to do: one frozen record, which is also what a resumed run is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from sandrl.bounds import LARGEST_WEIGHT, LONGEST_SECONDS, SHORTEST_SECONDS
from sandrl.config.episodes import CONCURRENCY
from sandrl.config.layers import near
from sandrl.config.model import empty_field
from sandrl.errors import InputError, UsageError
from sandrl.rewards.extraction import Extraction
from sandrl.rewards.policies import Components
from sandrl.rollouts.kinds import EpisodeKind, ToolSet
from sandrl.runs.resumption import check_command
from sandrl.sandboxes import SandboxRequest
from sandrl.settings import ReportTo, RuntimeKind
from sandrl.trainers.art.kinds import ArtBackendKind, ArtPolicy

COMMAND = "art-train"
RUN_NAME = "train-001"
TEACHER_MODEL = "gpt-5.1-codex-mini"

_OF_TEACHERS = ("model", "base_url")
_HELD_BY_AN_EPISODE = 2


class ArtConfig(BaseModel):
    """The resolved configuration of a training with ART.

    Attributes:
        backend: Where the model is trained.
        base_model: The model that is trained, from this one on.
        policy: Who acts in the episodes.
        model: The teacher, as its endpoint calls it; None where the trained model acts itself.
        base_url: The teacher's endpoint; what the environment says unless given, else OpenAI's.
        trajectories: The run whose episodes are trained on, instead of new ones.
        renderer: How `tinker` turns conversations into tokens, a name of tinker_cookbook's; by the base model unless
            given.
        lora_rank: The rank of the adapters that are trained.
        problems: The set of problems, as `--problems` takes it.
        num_problems: How many of them are trained on, the first.
        problems_per_step: How many a step has; all of them unless given.
        num_steps: How many steps are trained.
        trajectories_per_problem: How many episodes a step has of each problem: a group.
        learning_rate: Of Adam, per step.
        rollout: How an episode goes.
        tools: The tools there are.
        max_tool_calls: How many calls of tools an episode may have.
        max_attempts: How many attempts an episode may have.
        show_tests: How many checks of a problem its prompt shows.
        extract: Where in an attempt its code is.
        reward: The policy that turns a verdict into a reward: a name, or `package.module:function`.
        format_reward: The weight of the component for a completion that is one `<answer>…</answer>`.
        length_penalty: The weight of the component against long completions.
        timeout_penalty: The weight of the component against timeouts.
        temperature: Of sampling.
        max_tokens: The longest answer.
        request_timeout_seconds: How long one answer may take.
        request_retries: How often an endpoint that does not answer is asked again.
        concurrency: How many episodes are played at once.
        timeout_seconds: Wall time of one command, and of a solution with its checks.
        max_sandboxes: How many sandboxes to hold at once; None for no bound. Half as many episodes are played at once.
        runtime: What runs the sandboxes.
        image: Their image; the runtime's own default unless given.
        packages: Installed packages the code may import (local runtime).
        tags: Tags of every sandbox, beside the workflow's own.
        project: ART's project, and W&B's.
        report_to: Where metrics go besides the run directory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: ArtBackendKind = ArtBackendKind.LOCAL
    base_model: str = Field(default="Qwen/Qwen3-8B", min_length=1)
    policy: ArtPolicy = ArtPolicy.TEACHER
    model: str | None = None
    base_url: str | None = None
    trajectories: str | None = None
    renderer: str | None = None
    lora_rank: int = Field(default=8, ge=1)
    problems: str = "mbpp"
    num_problems: int = Field(default=10, ge=1)
    problems_per_step: int | None = Field(default=None, ge=1)
    num_steps: int = Field(default=5, ge=1)
    trajectories_per_problem: int = Field(default=2, ge=2)
    learning_rate: float = Field(default=1e-5, gt=0, allow_inf_nan=False)
    rollout: EpisodeKind = EpisodeKind.TOOLS
    tools: ToolSet = ToolSet.CODE
    max_tool_calls: int = Field(default=20, ge=1)
    max_attempts: int = Field(default=3, ge=1)
    show_tests: int = Field(default=1, ge=0)
    extract: Extraction = Extraction.AUTO
    reward: str = "binary"
    format_reward: float = Field(default=0.0, ge=0, le=LARGEST_WEIGHT)
    length_penalty: float = Field(default=0.0, ge=0, le=LARGEST_WEIGHT)
    timeout_penalty: float = Field(default=0.0, ge=0, le=LARGEST_WEIGHT)
    temperature: float = Field(default=1.0, ge=0, le=100, allow_inf_nan=False)
    max_tokens: int = Field(default=2048, ge=1)
    request_timeout_seconds: float = Field(default=120.0, ge=SHORTEST_SECONDS, le=LONGEST_SECONDS, allow_inf_nan=False)
    request_retries: int = Field(default=4, ge=0)
    concurrency: int | None = Field(default=None, ge=1)
    timeout_seconds: float = Field(default=10.0, ge=SHORTEST_SECONDS, le=LONGEST_SECONDS, allow_inf_nan=False)
    max_sandboxes: int | None = Field(default=None, ge=1)
    runtime: RuntimeKind = RuntimeKind.AUTO
    image: str | None = None
    packages: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    project: str = Field(default="aviato-mbpp", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    report_to: ReportTo = ReportTo.AUTO

    @model_validator(mode="after")
    def _no_empty_texts(self) -> ArtConfig:
        name = empty_field(self)
        if name is not None:
            raise ValueError(f"{name}: must not be empty; leave it out")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> ArtConfig:
        for name in _OF_TEACHERS if self.policy is ArtPolicy.TRAINED or self.trajectories else ():
            if getattr(self, name) is not None:
                why = "recorded episodes have been played" if self.trajectories else "the trained model acts itself"
                raise ValueError(f"{name}: names a teacher, and with {self._choice} {why}")
        if self.problems_per_step is not None and self.problems_per_step > self.num_problems:
            raise ValueError(f"problems_per_step: {self.problems_per_step} is more than num_problems")
        if self.max_sandboxes is not None and self.max_sandboxes < _HELD_BY_AN_EPISODE:
            raise ValueError("max_sandboxes: an episode holds two at once, one to work in and one to be judged in")
        if self.policy is ArtPolicy.TRAINED and self.temperature == 0:
            raise ValueError("temperature: at 0 every episode of a problem is the same, and nothing can be learned")
        return self

    @property
    def _choice(self) -> str:
        return "--trajectories" if self.trajectories else f"--policy {self.policy.value}"

    @property
    def teacher(self) -> str:
        """The teacher's name, where the user did not say."""
        return self.model or TEACHER_MODEL

    @property
    def step_problems(self) -> int:
        """How many problems a step has."""
        return self.problems_per_step or self.num_problems

    @property
    def episodes_per_step(self) -> int:
        """How many episodes a step has."""
        return self.step_problems * self.trajectories_per_problem

    @property
    def episodes_at_once(self) -> int:
        """How many episodes are played at once: never so many that all wait for a sandbox to be judged in."""
        most = self.concurrency or CONCURRENCY
        if self.max_sandboxes is not None:
            most = min(most, self.max_sandboxes // _HELD_BY_AN_EPISODE)
        return min(most, self.episodes_per_step)

    @property
    def components(self) -> Components:
        """What is rewarded besides correctness; part of the number that is trained on."""
        return Components(self.format_reward, self.length_penalty, self.timeout_penalty)

    @property
    def sandboxes(self) -> SandboxRequest:
        """The sandboxes it asks for."""
        return SandboxRequest(self.runtime, self.image, self.packages, self.tags, self.max_sandboxes)

    def document(self) -> dict[str, JsonValue]:
        """The configuration as plain JSON, every field with its value."""
        document: dict[str, JsonValue] = self.model_dump(mode="json")
        return document


def resolve(given: Mapping[str, JsonValue], saved: Mapping[str, JsonValue] | None = None) -> ArtConfig:
    """Makes a configuration of what was given.

    Args:
        given: Options of the command line, by the names of `ArtConfig`.
        saved: The configuration of the run that is to go on.

    Raises:
        UsageError: If an option is impossible, or is not what the run was begun with. Only the number of steps, how
            many episodes are played at once, and where metrics go may change.
    """
    try:
        config = ArtConfig.model_validate({**(saved or {}), **given})
    except ValidationError as error:
        raise UsageError(_first_problem(error)) from error
    if saved is not None:
        begun = ArtConfig.model_validate(saved)
        for name in ArtConfig.model_fields.keys() - {"num_steps", "concurrency", "max_sandboxes", "report_to"}:
            if getattr(begun, name) != getattr(config, name):
                raise UsageError(
                    f"the run cannot go on: {_option(name)} has changed", hint="leave it out, or begin a new run"
                )
    return config


def saved_fields(options: Mapping[str, JsonValue], command: str, path: str | Path) -> dict[str, JsonValue]:
    """The configuration a run was begun with, of the options it keeps.

    Raises:
        InputError: If it is a run of another command, or of another version of sandrl.
    """
    check_command(Path(path), command, COMMAND)
    fields = {name: value for name, value in options.items() if name in ArtConfig.model_fields}
    try:
        return ArtConfig.model_validate(fields).document()
    except ValidationError as error:
        raise InputError("is a run of another version of sandrl", path=str(path)) from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    name = str(problem["loc"][0]) if problem["loc"] else ""
    if problem["type"] == "extra_forbidden":
        return f"there is no option {name!r}{near(name, ArtConfig.model_fields)}"
    message = problem["msg"].removeprefix("Value error, ")
    if name:
        return f"{_option(name)}: {message}, not {problem['input']!r}"
    # Ours begin with the field.
    field, _, rest = message.partition(":")
    return f"{_option(field)}:{rest}"


def _option(name: str) -> str:
    name = {"timeout_seconds": "timeout", "request_timeout_seconds": "request_timeout", "tags": "tag"}.get(name, name)
    return f"--{name.replace('_', '-')}"
