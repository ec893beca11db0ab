"""Loads a policy for TRL: by TRL alone, or by Unsloth, also with adapters of an earlier run.

Both train with TRL's trainer. A loader contains the differences between the commands: required packages, loading of the
policy, defaults, and the name of a run. The base class is TRL alone; another loader overrides what differs.

The settings of low-rank adapters, in the directory that contains them, become part of the run's configuration. So
`config.json` shows what is trained, and an option with a different value is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import JsonValue

from sandrl import extras
from sandrl.config.grpo import GrpoConfig
from sandrl.config.words import OWN_TEMPLATE
from sandrl.errors import UsageError
from sandrl.events import Emit, ignore
from sandrl.models import libraries
from sandrl.models.adapters import Adapters, find_adapters
from sandrl.models.description import ModelDescription
from sandrl.settings import Settings
from sandrl.trainers.config import REAL_MODEL

LORA_MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""All seven projections of a layer (arXiv:2106.09685 trains two; the others help, and cost little)."""


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


def check_lora(description: ModelDescription) -> None:
    """Makes sure that a model has layers for adapters, without its weights.

    Raises:
        UsageError: If it has none.
    """
    with libraries.kept_quiet(), libraries.load("torch").device("meta"):
        model = libraries.load("transformers").AutoModelForCausalLM.from_config(description.config)
    layers = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    if not layers.intersection(LORA_MODULES):
        raise UsageError(
            f"lora: {description.name} has no layers for adapters ({', '.join(LORA_MODULES)})",
            hint="train all weights: leave `lora` out, or give `no-lora`",
            fields=("lora",),
        )


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

    def policy(self, description: ModelDescription, config: GrpoConfig) -> LoadedPolicy:
        """Loads what is trained: a model, or adapters further."""
        # The trainer would load the tokenizer of the base, and no template that is not the model's own.
        is_own = description.template.name == OWN_TEMPLATE and description.adapters is None
        tokenizer = None if is_own else description.tokenizer
        if description.adapters is not None:
            return LoadedPolicy(_load_adapters(description.adapters, config), tokenizer)
        model = description.place.name
        if not config.lora:
            return LoadedPolicy(model, tokenizer)
        adapters = libraries.load("peft").LoraConfig(
            r=config.lora_rank,
            lora_alpha=2 * config.lora_rank,
            target_modules=list(LORA_MODULES),
            task_type="CAUSAL_LM",
        )
        return LoadedPolicy(model, tokenizer, adapters)

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
