"""Loads a policy for TRL: by TRL alone, or by Unsloth, also with adapters of an earlier run.

Both train with TRL's trainer. A loader contains the differences between the commands: required packages, loading of the
policy, defaults, and the name of a run. The base class is TRL alone; another loader overrides what differs.

The settings of low-rank adapters, in the directory that contains them, become part of the run's configuration. So
`config.json` shows what is trained, and an option with a different value is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, JsonValue, ValidationError

from sandrl import extras
from sandrl.config.grpo import GrpoConfig
from sandrl.errors import InputError, UsageError
from sandrl.events import Emit, ignore
from sandrl.models import libraries
from sandrl.models.places import ModelPlace, find_model
from sandrl.settings import Settings
from sandrl.trainers.config import REAL_MODEL

_FILE = "adapter_config.json"
LORA_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""All seven projections of a layer (arXiv:2106.09685 trains two; the others help, and cost little)."""


class _Saved(BaseModel):
    # What peft writes beside the weights of adapters, as far as it matters here.
    peft_type: str
    base: str = Field(alias="base_model_name_or_path", min_length=1)
    rank: int = Field(alias="r", default=0)


@dataclass(frozen=True, slots=True)
class Adapters:
    """Trained adapters in a directory, and the model they belong to, as they name it."""

    path: Path
    base: str
    rank: int


def find_adapters(model: str) -> Adapters | None:
    """The adapters in a directory; None if the model is something else.

    Raises:
        InputError: If they are of another kind, or their description cannot be read.
    """
    path = Path(model).expanduser()
    described = path / _FILE
    if not described.is_file():
        return None
    try:
        saved = _Saved.model_validate_json(described.read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError("is not a valid adapter configuration of peft", path=described) from error
    if saved.peft_type != "LORA":
        raise InputError(
            f"describes adapters of type {saved.peft_type}; sandrl trains only LORA adapters", path=described
        )
    return Adapters(path, saved.base, saved.rank)


def with_adapters(config: GrpoConfig, given: Collection[str]) -> GrpoConfig:
    """The configuration of a run that trains adapters further, if its model is some.

    Raises:
        UsageError: If an option that was given says something else of them.
    """
    adapters = None if config.is_tiny else find_adapters(config.model)
    if adapters is None:
        return config
    known: dict[str, JsonValue] = {"lora": True, "lora_rank": adapters.rank}
    for name, value in known.items():
        if name in given and getattr(config, name) != value:
            raise UsageError(
                f"{name}: {adapters.path} contains adapters of rank {adapters.rank}, whose training is continued",
                hint="leave it out",
                fields=(name,),
            )
    return config.model_copy(update=known)


def find_policy(model: str) -> ModelPlace:
    """Finds out where a policy is loaded from; of adapters, where their base is, too.

    Raises:
        InputError: If one of them is nowhere.
    """
    place, adapters = find_model(model), find_adapters(model)
    if adapters is not None:
        try:
            find_model(adapters.base)
        except InputError as error:
            hint = f"put the base model there, or correct base_model_name_or_path in {adapters.path / _FILE}"
            raise InputError(
                f"contains adapters whose base model is missing: {error.message}", path=model, hint=hint
            ) from error
    return place


def base_of(place: ModelPlace) -> ModelPlace:
    """Where the base of adapters is loaded from; of any other model, the model itself."""
    adapters = find_adapters(place.name)
    return place if adapters is None else find_model(adapters.base)


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """What the trainer is given to train.

    Attributes:
        model: A model, or where the trainer loads one from.
        tokenizer: None if the trainer loads it with the model.
        peft_config: The adapters that the trainer adds; None if it adds none.
    """

    model: Any
    tokenizer: Any = None
    peft_config: Any = None


class Loader:
    """TRL by itself; it trains `model` if there is a GPU and no model is named."""

    command: ClassVar[str] = "grpo"
    extra: ClassVar[str] = "grpo"
    packages: ClassVar[tuple[str, ...]] = libraries.PACKAGES
    workflow_tag: ClassVar[str] = "trl-grpo"
    model: ClassVar[str] = REAL_MODEL

    def check_installed(self) -> None:
        """Makes sure that all packages are there, without loading any.

        Raises:
            MissingExtraError: If a package is not installed.
        """
        extras.check(self.packages, extra=self.extra)

    def versions(self) -> dict[str, str]:
        return libraries.versions(self.packages)

    def defaults(self, *, is_tiny: bool) -> Mapping[str, JsonValue]:
        """What it trains with where nothing else is said, beyond what all loaders do."""
        return {}

    def prepare(self, settings: Settings, *, emit: Emit = ignore) -> None:
        """Does what must be done before TRL, transformers or peft are imported."""

    def policy(self, model: str, config: GrpoConfig) -> LoadedPolicy:
        """Loads what is trained: a model id of the hub, or the directory of a model or of adapters."""
        found = find_adapters(model)
        if found is not None:
            return LoadedPolicy(_load_adapters(found, config))
        if not config.lora:
            return LoadedPolicy(model)
        adapters = libraries.load("peft").LoraConfig(
            r=config.lora_rank,
            lora_alpha=2 * config.lora_rank,
            target_modules=list(LORA_MODULES),
            task_type="CAUSAL_LM",
        )
        return LoadedPolicy(model, peft_config=adapters)

    def optimizations(self, trainer: Any) -> tuple[str, ...]:
        return ()


def _load_adapters(adapters: Adapters, config: GrpoConfig) -> Any:
    keywords = libraries.keywords(config.set, "model_init_kwargs")
    # Weights of 32 bits unless told otherwise, as TRL does. `AutoPeftModel` would cut the vocabulary to the tokens.
    base = libraries.load("transformers").AutoModelForCausalLM.from_pretrained(
        adapters.base, **{"dtype": "float32", **keywords}
    )
    return libraries.load("peft").PeftModel.from_pretrained(base, str(adapters.path), is_trainable=True)


TRL = Loader()
