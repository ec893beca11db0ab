"""Fields of TRL's own configuration, given as `--set key=value`.

The design decision: TRL's dataclass is the list of what can be set and of what type it is; nothing of it is copied
here, so that a new release brings its new fields. What sandrl decides itself has an option of its own, and says which.
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
from sandrl.config.layers import near
from sandrl.errors import UsageError

# What sandrl decides, and the option that has a say in it.
RESERVED: Mapping[str, str] = {
    "output_dir": "--output-dir",
    "max_steps": "--steps",
    "num_train_epochs": "--steps",
    "num_generations": "--samples",
    "per_device_train_batch_size": "--batch-size",
    "generation_batch_size": "--batch-size",
    "auto_find_batch_size": "--batch-size",
    "learning_rate": "--learning-rate",
    "lr_scheduler_type": "--lr-schedule",
    "beta": "--beta",
    "temperature": "--temperature",
    "max_completion_length": "--max-tokens",
    "max_tool_calling_iterations": "--max-tool-calls",
    "loss_type": "--loss-type",
    "use_vllm": "--use-vllm",
    "vllm_mode": "--use-vllm",
    "vllm_server_base_url": "--vllm-server-url",
    "seed": "--seed",
    "data_seed": "--seed",
    "report_to": "--report-to",
    "project": "--project",
    "run_name": "--run-name",
    "resume_from_checkpoint": "--resume",
    "save_steps": "--save-steps",
    "save_strategy": "--save-steps",
    "save_total_limit": "--keep-checkpoints",
    "save_only_model": "--save-steps",
    # Every step is logged, whatever anyone says: metrics without gaps are a promise.
    "logging_steps": "--report-to",
    "logging_strategy": "--report-to",
    "disable_tqdm": "--report-to",
    "eval_strategy": "--eval-problems",
    "eval_on_start": "--eval-problems",
    "eval_steps": "--eval-problems",
}


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
            raise UsageError(f"--set {name}: sandrl sets this field itself", hint=f"use {RESERVED[name]}")
        if name not in known:
            raise UsageError(f"--set {name}: TRL's GRPOConfig has no such field{near(name, known)}")
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
            check_finite(f"--set {name}", typed)
        # An enumeration of transformers is a str too; what is saved is plain.
        return str(typed.value) if hasattr(typed, "value") else typed
    wanted = getattr(annotation, "__name__", None) or str(annotation)
    raise UsageError(f"--set {name}={value}: is not of the type TRL declares for it, {wanted}")
