"""The resolved configuration of a training: defaults by kind of model, file and command line.

The layers are merged into a configuration without unset fields. `--print-config` shows it and the run directory stores
it. A resumed run keeps the configuration with which it started, and options that are given again must have the same
values: rows that were made with two configurations cannot be compared. Only the number of steps, which changes no
existing step, and the budget may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from sandrl.config import layers
from sandrl.config.grpo import GrpoConfig
from sandrl.config.model import Config
from sandrl.config.words import TINY, Extraction
from sandrl.errors import UsageError
from sandrl.problems.loading import reading_of
from sandrl.problems.profile import Profile
from sandrl.problems.quality import QualityFilter
from sandrl.problems.schedule import too_short_note
from sandrl.problems.splits import Splits, load_splits
from sandrl.runs import RunReader, find_run
from sandrl.runs.resumption import saved_config
from sandrl.settings import Settings

REAL_MODEL = "Qwen/Qwen2.5-0.5B-Instruct"

MAY_CHANGE = frozenset({"steps", "budget"})
"""What may be another when a run with TRL is resumed; steps may only be more."""

AnyConfig = TypeVar("AnyConfig", bound=Config)

TINY_DEFAULTS: Mapping[str, JsonValue] = {
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

REAL_DEFAULTS: Mapping[str, JsonValue] = {
    "problems": "mbpp",
    # Four problems a step, in four parts: what a GPU of 24 GB holds for half a billion parameters.
    "set": {"gradient_accumulation_steps": 4},
}
"""What every other model is trained with where nothing else is said."""


def resolve(
    command_line: Mapping[str, JsonValue],
    file: Mapping[str, JsonValue] | None = None,
    *,
    default_model: str = TINY,
    further: Mapping[str, JsonValue] | None = None,
) -> GrpoConfig:
    """Merges the command line, the file of `--config`, `further` defaults, and those for the kind of model.

    Raises:
        UsageError: If a key is unknown or a value is impossible.
    """
    given: dict[str, JsonValue] = {**(file or {}), **command_line}
    model = given.get("model", default_model)
    defaults = {**(TINY_DEFAULTS if model == TINY else REAL_DEFAULTS), **(further or {})}
    if model == TINY and given.get("rollout") == "tools":
        defaults["max_tokens"] = TINY_EPISODE_TOKENS
    return layers.resolve(GrpoConfig, {"model": model}, defaults, file or {}, command_line)


def splits_of(config: GrpoConfig, quality: QualityFilter | None = None, profile: Profile | None = None) -> Splits:
    """Loads the problems that a configuration trains and evaluates on, but for what the filters do not accept.

    Raises:
        InputError: If they cannot be used.
    """
    sets = load_splits(
        config.problems,
        num_problems=config.num_problems,
        eval_problems=config.eval_problems,
        seed=config.seed,
        eval_set=config.eval_set,
        skip_bad_rows=config.skip_bad_rows,
        quality=quality,
        profile=profile,
        deduplicate=config.deduplicate,
        decontaminate=config.decontaminate,
        **reading_of(config),
    )
    note = too_short_note(config, sets.parts)
    return replace(sets, notes=(*sets.notes, note)) if note else sets


def resumed(
    kind: type[AnyConfig],
    resume: str,
    given: Mapping[str, JsonValue],
    settings: Settings,
    *,
    command: str,
    file: Mapping[str, JsonValue],
    chosen: Mapping[str, JsonValue],
    complete: Callable[[AnyConfig], AnyConfig],
    may_change: Collection[str],
) -> tuple[Path, AnyConfig, AnyConfig]:
    """The directory of the run to resume, its saved configuration, and the one with which it is resumed.

    The command line (`given`) beats the file of `--config`, and what its words stand for (`chosen`) beats both.
    `complete` completes the configuration before it is compared.

    Raises:
        UsageError: If there is no such run, it would be somewhere else, or its configuration would change.
    """
    if {"run_name", "runs_dir"} & set(given):
        message = "resume continues a run in its own directory: leave out run_name and runs_dir"
        raise UsageError(message, fields=("resume", "run_name", "runs_dir"))
    run = find_run(resume, settings.state_dir, settings.runs_dir)
    saved = saved_config(kind, RunReader(run), command)
    # What is saved has no holes: the defaults of a kind of model would fill what it leaves out on purpose.
    wanted = complete(layers.resolve(kind, saved.document(), file, given, chosen))
    key = changed_key(saved, wanted, may_change)
    if key is not None:
        raise UsageError(
            f"{key} has changed since the run {run.name!r} was started, so it cannot be resumed with it",
            hint="leave it out, or start a new run",
            fields=(key,),
        )
    return run, saved, wanted


def changed_key(before: Config, after: Config, may_change: Collection[str] = ()) -> str | None:
    """The first field, or the first key of a table, whose values differ and may not; None if there is none."""
    for name in type(before).model_fields:
        one, other = getattr(before, name), getattr(after, name)
        if one != other and name not in may_change:
            if not isinstance(one, dict):
                return name
            return next(str(key) for key in {**one, **other} if one.get(key) != other.get(key))
    return None
