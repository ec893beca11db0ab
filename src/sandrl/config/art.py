"""The configuration of `sandrl art train`.

The model that is trained is `base_model`, as ART calls it; `model` and its endpoint are the teacher's, who acts where
`policy` says so. A run that goes on is compared with it, field by field.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from sandrl.config.episodes import EpisodesConfig, Steps
from sandrl.config.fields import EPISODES, MODEL, OUTPUT, PROBLEMS, TRAINING, Option
from sandrl.config.groups import Samples, check_groups
from sandrl.config.model import Count, LearningRate
from sandrl.config.parts import Problems, ReportTraining
from sandrl.config.words import TINY, EpisodeKind
from sandrl.settings import ReportTo, Settings

RUN_NAME = "train-001"
TEACHER_MODEL = "gpt-5.1-codex-mini"
BASE_MODEL = "Qwen/Qwen3-8B"

MAY_CHANGE = frozenset({"steps", "concurrency", "max_sandboxes", "budget", "log_level", "report_to", "notify"})
"""What may be another when a run goes on."""

_OF_TEACHERS = ("model", "base_url")


class ArtBackendKind(StrEnum):
    """Where the model is trained; `auto` decides by the hardware, the extras and the keys that are present."""

    AUTO = "auto"
    LOCAL = "local"
    TINKER = "tinker"
    EMBEDDED = "embedded"


class ArtPolicy(StrEnum):
    """Who acts in the episodes: the model that is trained, or another one from which it learns."""

    TRAINED = "trained"
    TEACHER = "teacher"


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """The backend that will be used.

    Attributes:
        kind: Which; never `AUTO`.
        reason: Why, as a sentence without its full stop.
    """

    kind: ArtBackendKind
    reason: str


def choose_backend(requested: ArtBackendKind, settings: Settings, *, can_train_here: bool) -> BackendChoice:
    """Decides where a model is trained.

    Args:
        requested: The backend that was asked for.
        settings: What the environment says.
        can_train_here: Whether this machine has a GPU, and the extra `art-local`.
    """
    if requested is ArtBackendKind.AUTO and can_train_here:
        return BackendChoice(ArtBackendKind.LOCAL, "this machine has a GPU")
    if requested in (ArtBackendKind.LOCAL, ArtBackendKind.EMBEDDED):
        return BackendChoice(requested, "asked for")
    if settings.tinker_api_key is not None:
        return BackendChoice(ArtBackendKind.TINKER, f"{settings.tinker_api_key_source} is set")
    if settings.tinker_base_url is not None:
        return BackendChoice(ArtBackendKind.TINKER, "TINKER_BASE_URL is set")
    return BackendChoice(ArtBackendKind.EMBEDDED, "no key is set")


class ArtTrainConfig(EpisodesConfig):
    """`sandrl art train`, resolved."""

    problems: Problems = "mbpp"
    num_problems: Annotated[Count, Option("Train on the first N of them.", PROBLEMS, metavar="N")] = 10
    trajectories: Annotated[
        str | None,
        Option(
            "Train on the episodes a run has kept, instead of playing any.", PROBLEMS, metavar="RUN", values="run_names"
        ),
    ] = None
    backend: Annotated[
        ArtBackendKind,
        Option(
            "Train on a GPU of this machine, by a Tinker service, or by one that is embedded in this command, for small"
            " models. `auto`: `local` with a GPU, `tinker` with a key, else `embedded`; `tinker` without a key or an"
            " address is `embedded`, too.",
            TRAINING,
        ),
    ] = ArtBackendKind.AUTO
    base_model: Annotated[
        str, Option("The model to train.", TRAINING, metavar="MODEL", default=f"{BASE_MODEL}; embedded: {TINY}")
    ] = BASE_MODEL
    steps: Steps = 5
    samples: Samples = 2
    batch_size: Annotated[
        Count | None, Option("Episodes per step.", TRAINING, metavar="N", default="one group of each problem")
    ] = None
    learning_rate: Annotated[LearningRate, Option("Of Adam, per step.", TRAINING, metavar="RATE")] = 1e-5
    lora: Annotated[
        bool,
        Option("Train adapters, or all weights: with `embedded` only, and by default of the tiny policy.", TRAINING),
    ] = True
    lora_rank: Annotated[Count, Option("Rank of the adapters.", TRAINING, metavar="N")] = 8
    seed: Annotated[
        int,
        Field(ge=0, lt=2**32),
        Option("With `embedded`: decides the tiny policy, new adapters and random numbers.", TRAINING, metavar="N"),
    ] = 0
    renderer: Annotated[
        str | None,
        Option(
            "How `tinker` writes conversations, in tinker_cookbook's word.",
            TRAINING,
            metavar="NAME",
            default="by the base model",
        ),
    ] = None
    policy: Annotated[
        ArtPolicy,
        Option(
            "Who acts: the model that is trained, or a teacher whose words are scored under it.",
            MODEL,
            default="teacher where a key, an endpoint or a model of one is given, else trained",
        ),
    ] = ArtPolicy.TEACHER
    model: Annotated[
        str | None, Option("The teacher, as its endpoint calls it.", MODEL, metavar="NAME", default=TEACHER_MODEL)
    ] = None
    base_url: Annotated[
        str | None, Option("The teacher's endpoint.", MODEL, metavar="URL", default="OPENAI_BASE_URL, else OpenAI's")
    ] = None
    rollout: Annotated[
        EpisodeKind, Option("Calls of tools, or code in answers with errors fed back.", EPISODES)
    ] = EpisodeKind.TOOLS  # fmt: skip
    project: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"),
        Option("ART's project, and W&B's.", OUTPUT, metavar="NAME"),
    ] = "aviato-mbpp"
    run_name: Annotated[str, Option("Name of the run directory, and of the model.", OUTPUT)] = RUN_NAME
    report_to: ReportTraining = ReportTo.AUTO

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        acts_itself = self.policy is ArtPolicy.TRAINED
        for name in _OF_TEACHERS if acts_itself or self.trajectories else ():
            if getattr(self, name) is not None:
                why = "recorded episodes have been played" if self.trajectories else "the trained model acts itself"
                raise ValueError(f"{name}: names a teacher, but {why}")
        if not self.lora and self.backend in (ArtBackendKind.LOCAL, ArtBackendKind.TINKER):
            raise ValueError(f"lora: the backend {self.backend} trains adapters only")
        if self.batch_size is not None:
            check_groups(self.batch_size, self.samples)
            if self.groups > self.num_problems:
                raise ValueError(f"batch_size: needs {self.groups} problems, and num_problems is {self.num_problems}")
        if acts_itself and self.temperature == 0:
            raise ValueError("temperature: at 0 every episode of a problem is the same, and nothing can be learned")
        return self

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
