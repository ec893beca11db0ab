"""Fields of TRL's own configuration, given in the table `set`.

TRL's dataclass defines the available fields and their types; nothing is copied here, so a new release brings its new
fields. A field that sandrl sets itself has an option, and the error message names that option.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from sandrl.bounds import check_finite
from sandrl.errors import UsageError
from sandrl.suggestions import near

# What sandrl decides, and the option that has a say in it.
RESERVED: Mapping[str, str] = {
    "output_dir": "output_dir",
    "max_steps": "steps",
    "num_train_epochs": "steps",
    "num_generations": "samples",
    "num_generations_eval": "eval_samples",
    "per_device_train_batch_size": "batch_size",
    "generation_batch_size": "batch_size",
    "auto_find_batch_size": "batch_size",
    "learning_rate": "learning_rate",
    "lr_scheduler_type": "lr_schedule",
    "beta": "beta",
    "temperature": "temperature",
    "max_completion_length": "max_tokens",
    "max_tool_calling_iterations": "max_tool_calls",
    "loss_type": "loss_type",
    "use_vllm": "vllm",
    "vllm_mode": "vllm",
    "vllm_server_base_url": "vllm_server_url",
    "seed": "seed",
    "data_seed": "seed",
    "report_to": "report_to",
    "project": "project",
    "run_name": "run_name",
    "resume_from_checkpoint": "resume",
    "save_steps": "save_steps",
    "save_strategy": "save_steps",
    "save_total_limit": "keep_checkpoints",
    "save_only_model": "save_steps",
    # Every step is logged, whatever anyone says: metrics without gaps are a promise.
    "logging_steps": "report_to",
    "logging_strategy": "report_to",
    "disable_tqdm": "report_to",
    "eval_strategy": "eval_every",
    "eval_on_start": "eval_problems",
    "eval_steps": "eval_every",
}

_REFUSED: Mapping[str, str] = {
    "remove_unused_columns": "the reward function needs every column of the dataset",
}
"""What cannot be another than it is, and why."""


def checked_fields(fields: Mapping[str, JsonValue], configuration: type) -> dict[str, JsonValue]:
    """Gives fields the types that TRL's configuration declares for them.

    Args:
        fields: Values by name, text where they come from the command line.
        configuration: TRL's `GRPOConfig`.

    Raises:
        UsageError: If there is no such field, a value is of another type, or sandrl decides the field.
    """
    types = typing.get_type_hints(configuration)
    known = [field.name for field in dataclasses.fields(configuration) if field.init]
    checked = {}
    for name, value in fields.items():
        if name in RESERVED:
            own = RESERVED[name]
            raise UsageError(f"set {name!r}: sandrl sets this field itself", hint=f"use `{own}`", fields=("set", own))
        if name in _REFUSED:
            raise UsageError(f"set {name!r}: {_REFUSED[name]}", hint="leave it out", fields=("set",))
        if name not in known:
            message = f"set {name!r}: TRL's GRPOConfig has no such field{near(name, known)}"
            raise UsageError(message, fields=("set",))
        checked[name] = _typed(name, value, types[name])
    return checked


def _typed(name: str, value: JsonValue, annotation: Any) -> JsonValue:
    adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
    candidates: list[JsonValue] = [value]
    if isinstance(value, str):
        # What TRL declares as text stays text; else the word may be JSON (a list, a table, null).
        words = {"none": "null"}
        with contextlib.suppress(ValueError):
            candidates.append(json.loads(words.get(value.lower(), value)))
    for candidate in candidates:
        try:
            typed = adapter.validate_python(candidate)
        except ValidationError:
            continue
        if isinstance(typed, float):
            check_finite("set", typed, of=name)
        # An enumeration of transformers is a str too; what is saved is plain.
        return str(typed.value) if hasattr(typed, "value") else typed
    wanted = getattr(annotation, "__name__", None) or str(annotation)
    raise UsageError(f"set {name}={value}: has the wrong type; TRL declares {wanted}", fields=("set",))
