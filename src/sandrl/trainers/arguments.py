"""Converts a configuration of sandrl to the arguments of TRL, with the fields of TRL's own that the table `set` gives.

TRL's dataclass defines these fields and their types; nothing is copied here, so a new release brings its new fields. A
field that sandrl sets itself has an option, and the error message names that option.

With vLLM, TRL's own integration generates, and all but three of its fields are set through `set`. Errors that TRL
detects late (after the policy is loaded, or after waiting minutes for a server) are detected here, so that `--dry-run`
reports them. Sampling settings need no code: TRL sends vLLM each setting that vLLM would take from the model's own
generation settings (`top_k`, `top_p`, `min_p`, `repetition_penalty`, `temperature`, `max_tokens`), in both modes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict, JsonValue, TypeAdapter, ValidationError

from sandrl.bounds import check_finite
from sandrl.config.grpo import TASK_TOOL_CALLS, TOOL_CALLS, GrpoConfig
from sandrl.errors import HardwareError, MissingExtraError, ServiceError, UsageError
from sandrl.installation import package_command
from sandrl.models import libraries
from sandrl.models.generation import NEUTRAL
from sandrl.problems.hub import hub_answers
from sandrl.problems.splits import Splits
from sandrl.rollouts.episodes import has_tasks, is_mixed
from sandrl.suggestions import near
from sandrl.trainers.batches import Division, check_filled, check_ranked, evaluation_batch

# What sandrl decides, and the option that has a say in it.
_RESERVED: Mapping[str, str] = {
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
    "mask_truncated_completions": "mask_truncated",
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

_OF_SERVER = frozenset({"vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port"})
_OF_COLOCATE = frozenset(
    {
        "vllm_gpu_memory_utilization",
        "vllm_max_model_length",
        "vllm_tensor_parallel_size",
        "vllm_enable_sleep_mode",
        "vllm_model_impl",
    }
)
_SETTINGS = frozenset({"top_k", "top_p", "min_p", "repetition_penalty"})
_HOST, _PORT = "0.0.0.0", 8000


def most_calls(config: GrpoConfig, sets: Splits) -> int:
    """How many tool calls an episode may have."""
    return config.max_tool_calls or (TASK_TOOL_CALLS if has_tasks(sets.all.values()) else TOOL_CALLS)


def trl_arguments(config: GrpoConfig, sets: Splits, *, world_size: int) -> Any:
    """TRL's `GRPOConfig` for a run; where it keeps checkpoints is set later, when there is a run directory.

    Raises:
        UsageError: If TRL refuses it, the batch cannot be divided among the processes, or the problems do not fill it.
        HardwareError: If it needs a GPU, and there is none.
        MissingExtraError: If vLLM is to generate, and is not installed.
        ServiceError: If a server that is to generate does not answer.
    """
    on_gpu = libraries.has_gpu()
    grpo_config: type = libraries.load("trl").GRPOConfig
    fields = checked_fields(config.trl_fields, grpo_config)
    config = config.model_copy(update={"set": fields})
    if config.rollout == "tools" and is_mixed(sets.all.values()):
        raise UsageError(
            "problems: has tasks and other problems, whose tools differ, and TRL offers one set of tools to all",
            hint="train on the tasks in a run of their own",
            fields=("problems", "rollout"),
        )
    _check_vllm(config, world_size=world_size)
    division = Division.of(config, world_size)
    if config.batch_size % division.parts:
        raise UsageError(
            f"batch_size {config.batch_size} is not divisible by {world_size} processes"
            f" times gradient_accumulation_steps={division.accumulation}",
            hint="choose a multiple, or `set` gradient_accumulation_steps=1",
            fields=("batch_size", "set"),
        )
    check_filled(config, len(sets.train), processes=world_size)
    check_ranked(config, processes=world_size)
    _check_evaluation_batch(fields, config.eval_samples, world_size)
    arguments: dict[str, Any] = {
        "output_dir": "unused",
        "max_steps": config.steps,
        "per_device_train_batch_size": config.batch_size // division.parts,
        "per_device_eval_batch_size": evaluation_batch(
            len(sets.evaluation), config.eval_samples, processes=world_size, most=config.batch_size // world_size
        ),
        "num_generations": config.samples,
        "num_generations_eval": config.eval_samples,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.lr_schedule,
        "beta": config.beta,
        "temperature": config.temperature,
        "max_completion_length": config.max_tokens,
        "mask_truncated_completions": config.mask_truncated,
        "max_tool_calling_iterations": most_calls(config, sets),
        "loss_type": config.loss_type,
        "seed": config.seed,
        "save_strategy": "steps",
        "save_steps": config.save_steps,
        # Checkpoints are removed by whoever knows which one is the best (`checkpoints.py`).
        "save_total_limit": None,
        "logging_strategy": "steps",
        "logging_steps": 1,
        # A loss that is no number must be seen.
        "logging_nan_inf_filter": False,
        "disable_tqdm": True,
        # Metrics are sandrl's own, and so is who is told them.
        "report_to": "none",
        # So is the time of evaluations, and their random state (`evaluation.py`).
        "eval_strategy": "no",
        "use_cpu": not on_gpu,
        "bf16": on_gpu,
        "gradient_checkpointing": on_gpu,
        "dataloader_pin_memory": on_gpu,
        # A language model uses all of its parameters in every pass; looking for others costs time and a warning.
        "ddp_find_unused_parameters": False,
    }
    if config.vllm is not None:
        arguments |= {"use_vllm": True, "vllm_mode": config.vllm, "vllm_server_base_url": config.vllm_server_url}
    try:
        return grpo_config(**{**arguments, **fields})
    except (ValueError, TypeError, ArithmeticError, ImportError) as error:
        raise UsageError(f"TRL refuses this configuration: {libraries.first_line(error)}") from error


def _check_evaluation_batch(fields: Mapping[str, JsonValue], answers: int, world_size: int) -> None:
    # A batch of whole groups; TRL checks this only where it evaluates.
    batch = fields.get("per_device_eval_batch_size")
    if batch is not None and (int(str(batch)) < 1 or int(str(batch)) * world_size % answers):
        raise UsageError(
            f"set per_device_eval_batch_size={batch}: times {world_size} processes, it must be a multiple of"
            f" {answers} answers to each problem",
            hint="leave it out",
            fields=("set", "eval_samples"),
        )


def checked_fields(fields: Mapping[str, JsonValue], configuration: type) -> dict[str, JsonValue]:
    """Gives fields, which are text if they come from the command line, the types that TRL's `GRPOConfig` declares.

    Raises:
        UsageError: If there is no such field, a value is of another type, or sandrl decides the field.
    """
    types = typing.get_type_hints(configuration)
    known = [field.name for field in dataclasses.fields(configuration) if field.init]
    checked = {}
    for name, value in fields.items():
        if name in _RESERVED:
            own = _RESERVED[name]
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


def _check_vllm(config: GrpoConfig, *, world_size: int) -> None:
    _check_fields(config, world_size)
    if config.vllm is None:
        return
    if not libraries.has_gpu():
        raise HardwareError(
            "vllm needs a GPU, and torch detects no GPU", hint="leave `vllm` out to train on the CPU", fields=("vllm",)
        )
    if importlib.util.find_spec("vllm") is None:
        raise MissingExtraError("the package 'vllm' is not installed", hint=package_command("trl[vllm]"))
    if config.vllm == "server":
        address = _server_address(config)
        if not hub_answers(f"{address}/health"):
            raise ServiceError(
                f"no vLLM server answers at {address}",
                hint="start it before the training (`vllm serve MODEL`), or give its address with `vllm_server_url`",
                fields=("vllm_server_url",),
            )


def _check_fields(config: GrpoConfig, world_size: int) -> None:
    # Every field for vLLM must have an effect: TRL ignores those of another mode without a word.
    of_other_mode = {"server": _OF_COLOCATE, "colocate": _OF_SERVER, None: frozenset[str]()}[config.vllm]
    for name in config.set:
        if name in of_other_mode or (config.vllm is None and name.startswith("vllm_")):
            needed = "colocate" if name in _OF_COLOCATE else "server" if name in _OF_SERVER else "server or colocate"
            message = f"set {name!r}: has no effect without vllm {needed}"
            raise UsageError(message, hint=f"leave it out, or add `vllm` {needed}", fields=("set", "vllm"))
    parallel = int(str(config.set.get("vllm_tensor_parallel_size") or 1))
    if world_size % parallel:
        message = f"set vllm_tensor_parallel_size={parallel}: is not a divisor of {world_size} processes"
        raise UsageError(message, hint="TRL divides the training processes into groups of this size", fields=("set",))
    given = libraries.keywords(config.set, "generation_kwargs")
    unknown = next((name for name in given if name in NEUTRAL.keys() - _SETTINGS), None)
    if config.vllm is not None and unknown is not None:
        message = f"set generation_kwargs: vLLM does not support {unknown}, which is a setting of transformers"
        raise UsageError(message, hint="leave it out", fields=("set",))


def _server_address(config: GrpoConfig) -> str:
    if config.vllm_server_url is not None:
        return config.vllm_server_url.rstrip("/")
    host, port = config.set.get("vllm_server_host", _HOST), config.set.get("vllm_server_port", _PORT)
    return f"http://{host}:{port}"
