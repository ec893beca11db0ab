"""The resolved configuration of a GRPO run: defaults by kind of model, file and command line.

The layers are merged into a configuration without unset fields. `--print-config` shows it, the run directory stores it,
and a resumed run is compared with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import JsonValue

from sandrl.config import layers
from sandrl.config.grpo import GrpoConfig
from sandrl.config.words import TINY, Extraction
from sandrl.problems.loading import reading_of
from sandrl.problems.splits import Splits, load_splits

REAL_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"

Option: TypeAlias = JsonValue

TINY_DEFAULTS: Mapping[str, Option] = {
    "problems": TINY,
    "extract": Extraction.EXACT.value,
    "steps": 80,
    "batch_size": 128,
    # Faster, or at full speed from the start, some kinds of task are given up before a right answer was sampled.
    "learning_rate": 4e-4,
    "lr_schedule": "constant_with_warmup",
    "max_tokens": 48,
    "save_steps": 10,
    # Gradients of rewards are noisy; a shorter memory of their size follows the policy's fast changes.
    "set": {"adam_beta2": 0.99, "entropy_coef": 0.005, "warmup_steps": 8},
}
"""What the tiny policy is trained with where nothing else is said."""

TINY_EPISODE_TOKENS = 160
"""How long an episode of the tiny policy may be, tool calls and observations included."""

REAL_DEFAULTS: Mapping[str, Option] = {
    "problems": "mbpp",
    # Four problems a step, in four parts: what a GPU of 24 GB holds for half a billion parameters.
    "set": {"gradient_accumulation_steps": 4},
}
"""What every other model is trained with where nothing else is said."""


def resolve(
    command_line: Mapping[str, Option],
    file: Mapping[str, Option] | None = None,
    *,
    default_model: str = TINY,
    further: Mapping[str, Option] | None = None,
) -> GrpoConfig:
    """Puts the layers of a configuration together.

    Args:
        command_line: What was given there; it beats the file.
        file: What the file of `--config` says; it beats the defaults.
        default_model: The model where neither names one.
        further: Defaults that beat those for the kind of model.

    Raises:
        UsageError: If a key is unknown or a value is impossible.
    """
    given: dict[str, Option] = {**(file or {}), **command_line}
    model = given.get("model", default_model)
    defaults = {**(TINY_DEFAULTS if model == TINY else REAL_DEFAULTS), **(further or {})}
    if model == TINY and given.get("rollout") == "tools":
        defaults["max_tokens"] = TINY_EPISODE_TOKENS
    return layers.resolve(GrpoConfig, {"model": model}, defaults, file or {}, command_line)


def splits_of(config: GrpoConfig) -> Splits:
    """Loads the problems that a configuration trains and evaluates on.

    Raises:
        InputError: If they cannot be used.
    """
    return load_splits(
        config.problems,
        num_problems=config.num_problems,
        eval_problems=config.eval_problems,
        seed=config.seed,
        eval_set=config.eval_set,
        **reading_of(config),
    )
