"""Sampling settings of a model in this process, the same for training and for every evaluation.

A model's own generation settings (`generation_config.json`) are ignored unless they are requested. They cut or bend
the distribution that rewards train, and a trainer applies some of them while `generate` applies all, so the numbers
before and after training would describe two policies. This module lists every setting that changes the distribution,
with its neutral value; settings that a model needs structurally (end tokens, suppressed tokens) always apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from sandrl.models import libraries
from sandrl.models.protocol import TokenLimit

NEUTRAL: Mapping[str, float | int] = {
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "num_beams": 1,
    "min_length": 0,
}
"""Settings of transformers' `GenerationConfig` with the values that leave a distribution as it is."""


FALLBACK_TOKENS = 32_768
"""The longest answer of a model without any limit."""

# The value of transformers for a model that names none.
_UNSET_LENGTH = 20


def own_settings(generation_config: Any) -> dict[str, JsonValue]:
    """What a model's `GenerationConfig`, if any, would change, by the names of `NEUTRAL`."""
    found = {name: getattr(generation_config, name, None) for name in NEUTRAL}
    return {name: value for name, value in found.items() if value is not None and value != NEUTRAL[name]}


def own_length(generation_config: Any) -> int | None:
    """The longest conversation, answer included, that a model's own settings name; None if they name none."""
    length = getattr(generation_config, "max_length", None)
    return int(length) if length and length != _UNSET_LENGTH else None


def own_limit(generation_config: Any, positions: int | None, name: str) -> TokenLimit:
    """The longest answer of a model of which the user asks for none in particular; `positions`: of its context."""
    tokens = getattr(generation_config, "max_new_tokens", None)
    if tokens:
        return TokenLimit(int(tokens), f"max_new_tokens of the generation settings of {name}")
    length = own_length(generation_config)
    if length is not None and (positions is None or length < positions):
        return TokenLimit(None, f"max_length of the generation settings of {name}, {length} tokens with the prompt")
    if positions is not None:
        return TokenLimit(None, f"the context of {name}, {positions} tokens with the prompt")
    return TokenLimit(FALLBACK_TOKENS, f"{name} has no limit of its own")


def sampling_facts(
    own: Mapping[str, JsonValue], *, are_used: bool = False, chosen: Mapping[str, JsonValue] | None = None
) -> dict[str, JsonValue]:
    """What a run keeps of how its model is sampled, besides its options."""
    users = {name: value for name, value in (chosen or {}).items() if name in NEUTRAL}
    return {
        "sampling": {**NEUTRAL, **(own if are_used else {}), **users},
        "unused_model_settings": {} if are_used else {name: own[name] for name in own if name not in users},
    }


def chosen_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The generation settings among a user's fields of TRL's configuration."""
    given = {**fields, **libraries.keywords(fields, "generation_kwargs")}
    return {name: given[name] for name in NEUTRAL if name in given}


def keep_neutral(trainer: Any, own: Mapping[str, JsonValue], chosen: Mapping[str, Any]) -> None:
    """Has TRL's trainer generate without the model's own settings; it would apply those that it does not set."""
    generation_config = getattr(trainer, "generation_config", None)
    if generation_config is None:
        return
    for name in own:
        if name not in chosen:
            setattr(generation_config, name, NEUTRAL[name])
            trainer.generation_kwargs[name] = NEUTRAL[name]
