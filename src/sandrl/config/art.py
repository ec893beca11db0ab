"""The configuration of `sandrl art train`.

`base_model` (ART's name) is the model to train; `model` and `base_url` are those of the teacher, which acts in the
episodes if `policy` is `teacher`. A resumed run is compared with this configuration field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from sandrl.config.episodes import EpisodesConfig, Steps
from sandrl.config.fields import EPISODES, MODEL, OUTPUT, PROBLEMS, TRAINING, option
from sandrl.config.model import Count, LearningRate, Seed
from sandrl.config.parts import (
    ROLLOUT_HELP,
    DynamicSampling,
    MaskTruncated,
    MaxTokens,
    Mixture,
    QuestionPart,
    ReportTraining,
    Samples,
    SchedulePart,
    check_groups,
)
from sandrl.config.words import TINY, EpisodeKind, Overlap
from sandrl.settings import ReportTo, Settings

RUN_NAME = "train-001"
TEACHER_MODEL = "gpt-5.1-codex-mini"
BASE_MODEL = "Qwen/Qwen3-8B"
SERVERLESS_MODEL = "OpenPipe/Qwen3-14B-Instruct"

MAY_CHANGE = frozenset(
    {
        "steps",
        "concurrency",
        "max_sandboxes",
        "max_flat_rounds",
        "budget",
        "log_level",
        "report_to",
        "log_completions",
        "notify",
    }
)
"""The fields that may change when a run is resumed."""

_OF_TEACHERS = ("model", "base_url")


class ArtBackendKind(StrEnum):
    """Where the model is trained; `auto` decides by the hardware, the extras and the keys that are present."""

    AUTO = "auto"
    LOCAL = "local"
    TINKER = "tinker"
    EMBEDDED = "embedded"
    SERVERLESS = "serverless"


_ADAPTERS_ONLY = (ArtBackendKind.LOCAL, ArtBackendKind.TINKER, ArtBackendKind.SERVERLESS)


class ArtPolicy(StrEnum):
    """Who acts in the episodes: the model that is trained, or another one from which it learns."""

    TRAINED = "trained"
    TEACHER = "teacher"


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The backend that will be used.

    Attributes:
        kind: Which; never `AUTO`.
    """

    kind: ArtBackendKind
    reason: str


def choose_backend(requested: ArtBackendKind, settings: Settings, *, can_train_here: bool) -> BackendChoice:
    """Decides where a model is trained; a machine with a GPU and the extra `art-local` can train here."""
    if requested is ArtBackendKind.AUTO and can_train_here:
        return BackendChoice(ArtBackendKind.LOCAL, "this machine has a GPU")
    if requested in (ArtBackendKind.LOCAL, ArtBackendKind.EMBEDDED, ArtBackendKind.SERVERLESS):
        return BackendChoice(requested, "requested")
    if settings.tinker_api_key is not None:
        return BackendChoice(ArtBackendKind.TINKER, f"{settings.tinker_api_key_source} is set")
    if settings.tinker_base_url is not None:
        return BackendChoice(ArtBackendKind.TINKER, "TINKER_BASE_URL is set")
    return BackendChoice(ArtBackendKind.EMBEDDED, "no key is set")


class ArtTrainConfig(EpisodesConfig, SchedulePart):
    """`sandrl art train`, resolved."""

    short_help: ClassVar[str] = (
        "base_model backend problems num_problems steps samples learning_rate policy rollout runtime run_name"
        " resume dry_run config_file"
    )

    problems: Mixture = "mbpp"
    num_problems: Count = option(10, "Train on the first N problems.", PROBLEMS, metavar="N")
    trajectories: str | None = option(
        None,
        "Train on the recorded episodes of this run instead of new ones.",
        PROBLEMS,
        metavar="RUN",
        values="run_names",
    )
    backend: ArtBackendKind = option(
        ArtBackendKind.AUTO,
        "Where to train: `local` on a GPU of this machine, `tinker` with a Tinker service, `embedded` with a service"
        " inside this command, for small models, `serverless` with W&B Training. `auto` takes `local` if there is a"
        " GPU, `tinker` if a key or TINKER_BASE_URL is set, else `embedded`. Without a key and TINKER_BASE_URL,"
        " `tinker` also means `embedded`.",
        TRAINING,
    )
    base_model: str = option(
        BASE_MODEL,
        "The model to train.",
        TRAINING,
        metavar="MODEL",
        default=f"{BASE_MODEL}; embedded: {TINY}; serverless: {SERVERLESS_MODEL}",
    )
    steps: Steps = 5
    samples: Samples = 2
    batch_size: Count | None = option(
        None, "Episodes per step.", TRAINING, metavar="N", default="one group for each problem"
    )
    dynamic_sampling: DynamicSampling = 0
    mask_truncated: MaskTruncated = False
    overlap: Overlap = option(
        Overlap.NONE,
        "With `step`, run the episodes of a step while the one before it is trained: the model learns from episodes"
        " that are one step old.",
        TRAINING,
    )
    max_flat_rounds: Count = option(
        3,
        "End after N rounds in a row that trained nothing, for example because all rewards of each group were equal. A"
        " round without training counts as no step; the next one takes the next problems.",
        TRAINING,
        metavar="N",
    )
    learning_rate: LearningRate = option(1e-5, "Learning rate of the Adam optimizer.", TRAINING, metavar="RATE")
    lora: bool = option(
        True,
        "Train LoRA adapters, or all weights. All weights need the backend `embedded`, and are the default for the"
        " tiny policy.",
        TRAINING,
    )
    lora_rank: Count = option(
        8, "Rank of the LoRA adapters; the backend `serverless` decides itself.", TRAINING, metavar="N"
    )
    seed: Seed = option(
        0, "Random seed of the backend `embedded`: the tiny policy, new adapters, sampling.", TRAINING, metavar="N"
    )
    renderer: str | None = option(
        None,
        "Chat renderer of tinker_cookbook, for the backend `tinker`.",
        TRAINING,
        metavar="NAME",
        default="the base model's",
    )
    policy: ArtPolicy = option(
        ArtPolicy.TEACHER,
        "The model that acts in the episodes: the trained model, or a teacher whose tokens the trained model"
        " learns from.",
        MODEL,
        default="teacher if a key, an endpoint or a model of a teacher is given, else trained",
    )
    model: str | None = option(
        None, "Name of the teacher at its endpoint.", MODEL, metavar="NAME", default=TEACHER_MODEL
    )
    base_url: str | None = option(
        None,
        "OpenAI-compatible endpoint of the teacher; its key is read from OPENAI_API_KEY.",
        MODEL,
        metavar="URL",
        default="OPENAI_BASE_URL, else OpenAI's",
    )
    rollout: EpisodeKind = option(EpisodeKind.TOOLS, ROLLOUT_HELP, EPISODES)
    # What is trained needs a bound: its longest answers decide the memory of a step.
    max_tokens: MaxTokens = 2048
    project: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] = option(
        "aviato-mbpp", "Project name for ART and for W&B.", OUTPUT, metavar="NAME"
    )
    run_name: str = option(RUN_NAME, "Name of the run directory and of the model.", OUTPUT, metavar="NAME")
    report_to: ReportTraining = (ReportTo.AUTO,)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        acts_itself = self.policy is ArtPolicy.TRAINED
        for name in _OF_TEACHERS if acts_itself or self.trajectories else ():
            if getattr(self, name) is not None:
                why = "recorded episodes need no teacher" if self.trajectories else "the trained model acts itself"
                raise ValueError(f"{name}: names a teacher, but {why}; leave it out")
        self._check_question()
        self._check_overlap()
        if not self.lora and self.backend in _ADAPTERS_ONLY:
            raise ValueError(f"lora: the backend {self.backend} trains adapters only; use the backend embedded")
        if self.backend is ArtBackendKind.SERVERLESS:
            self._check_serverless()
        if self.batch_size is not None:
            check_groups(self.batch_size, self.samples)
            if self.groups > self.num_problems:
                raise ValueError(f"batch_size: needs {self.groups} problems, and num_problems is {self.num_problems}")
        if acts_itself and self.temperature == 0:
            raise ValueError("temperature: must be more than 0; at 0 all episodes of a problem are the same")
        return self

    def _check_overlap(self) -> None:
        if self.overlap is Overlap.ANSWERS:
            raise ValueError("overlap: episodes are judged as they end, so answers has no effect; use step or none")
        if self.overlap is Overlap.STEP and self.trajectories is not None:
            raise ValueError("overlap: recorded episodes are not run again; leave it out")
        if self.overlap is Overlap.STEP and self.backend is ArtBackendKind.LOCAL:
            raise ValueError("overlap: the backend local cannot run episodes while it trains; leave it out")

    def _check_question(self) -> None:
        if self.trajectories is not None:
            for name in ("min_quality", "dynamic_sampling", *SchedulePart.model_fields):
                if getattr(self, name):
                    raise ValueError(f"{name}: chooses problems, and the episodes are recorded; leave it out")
            if self.judge_base_url is not None:
                raise ValueError("judge_base_url: recorded episodes are not graded again; leave it out")
            if self.max_flat_rounds != type(self).model_fields["max_flat_rounds"].default:
                raise ValueError("max_flat_rounds: recorded episodes are trained on to their end; leave it out")
            for name in (each for each in QuestionPart.model_fields if each != "max_attempts"):
                if getattr(self, name) != QuestionPart.model_fields[name].get_default(call_default_factory=True):
                    raise ValueError(f"{name}: recorded episodes are not asked again; leave it out")
        if self.chat_template is not None and self.backend in (ArtBackendKind.TINKER, ArtBackendKind.EMBEDDED):
            raise ValueError(
                "chat_template: with Tinker, a renderer makes texts of conversations; set renderer instead"
            )
        if self.chat_template is not None and self.backend is ArtBackendKind.SERVERLESS:
            raise ValueError("chat_template: W&B Training makes texts of conversations itself; leave it out")
        if self.policy is ArtPolicy.TRAINED and self.backend not in (ArtBackendKind.LOCAL, ArtBackendKind.SERVERLESS):
            for name in ("min_p", "stop", "extra_body"):
                if getattr(self, name):
                    raise ValueError(f"{name}: Tinker cannot sample the trained model with it; leave it out")

    def _check_serverless(self) -> None:
        if self.policy is ArtPolicy.TEACHER:
            why = "the backend serverless scores no tokens of other models"
            raise ValueError(f"policy: {why}; use policy = trained, or another backend")
        for name, why in (("lora_rank", "the backend serverless decides it"), ("renderer", "only tinker has one")):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: {why}; leave it out")

    @property
    def is_tiny(self) -> bool:
        """Whether the tiny policy is trained."""
        return self.backend is ArtBackendKind.EMBEDDED and self.base_model == TINY

    @property
    def teacher(self) -> str:
        """The teacher's name, where the user did not say."""
        return self.model or TEACHER_MODEL

    @property
    def groups(self) -> int:
        """How many problems a step has."""
        return self.num_problems if self.batch_size is None else self.batch_size // self.samples

    @property
    def episodes_per_step(self) -> int:
        """How many episodes a step has."""
        return self.groups * self.samples
