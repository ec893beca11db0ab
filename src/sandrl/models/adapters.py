"""Low-rank adapters in a directory, as peft saves them, and the model they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from sandrl.errors import InputError
from sandrl.models.places import ADAPTER, ModelPlace, find_model


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
    described = path / ADAPTER
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


def base_of(place: ModelPlace) -> ModelPlace:
    """Where the base of adapters is loaded from; of any other model, the model itself.

    Raises:
        InputError: If the base is nowhere.
    """
    adapters = find_adapters(place.name) if place.is_directory else None
    if adapters is None:
        return place
    try:
        return find_model(adapters.base)
    except InputError as error:
        hint = f"put the base model there, or correct base_model_name_or_path in {adapters.path / ADAPTER}"
        message = f"contains adapters whose base model is missing: {error.message}"
        raise InputError(message, path=place.name, hint=hint) from error
