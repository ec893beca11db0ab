"""Continues the training of low-rank adapters from a directory that contains them and names their base model.

The adapter settings in that directory become part of the run's configuration. So `config.json` shows what is trained,
and an option with a different value is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, JsonValue, ValidationError

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import InputError, UsageError
from sandrl.models import libraries
from sandrl.models.places import ModelPlace, find_model

_FILE = "adapter_config.json"


class _Saved(BaseModel):
    """What peft writes beside the weights of adapters, as far as it matters here."""

    peft_type: str
    base: str = Field(alias="base_model_name_or_path", min_length=1)
    rank: int = Field(alias="r", default=0)


@dataclass(frozen=True, slots=True)
class Adapters:
    """Trained adapters.

    Attributes:
        path: Their directory.
        base: The model they belong to, as they name it.
        rank: Their rank.
    """

    path: Path
    base: str
    rank: int


def find_adapters(model: str) -> Adapters | None:
    """The adapters in a directory; None if the model is something else.

    Args:
        model: The model to train, as the option takes it.

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

    Args:
        config: What was asked for.
        given: The options that were given.

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


def load_adapters(adapters: Adapters, config: GrpoConfig) -> Any:
    """The base with its adapters, which alone are trained."""
    keywords = libraries.keywords(config.set, "model_init_kwargs")
    # Weights of 32 bits unless told otherwise, as TRL does. `AutoPeftModel` would cut the vocabulary to the tokens.
    base = libraries.load("transformers").AutoModelForCausalLM.from_pretrained(
        adapters.base, **{"dtype": "float32", **keywords}
    )
    return libraries.load("peft").PeftModel.from_pretrained(base, str(adapters.path), is_trainable=True)
