"""Converts a configuration of sandrl to the arguments of TRL; all names that differ are here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import UsageError
from sandrl.models import libraries
from sandrl.problems.splits import Splits
from sandrl.trainers.batches import Division, check_filled
from sandrl.trainers.padding import evaluation_batch
from sandrl.trainers.passthrough import checked_fields
from sandrl.trainers.vllm import check_vllm, vllm_arguments


def trl_arguments(config: GrpoConfig, sets: Splits, *, world_size: int) -> Any:
    """TRL's `GRPOConfig` for a run; where it keeps checkpoints is set later, when there is a run directory.

    Args:
        config: What was asked for.
        sets: What to train and to evaluate on.
        world_size: How many processes train together.

    Raises:
        UsageError: If TRL refuses it, the batch cannot be divided among the processes, or the problems do not fill it.
        HardwareError: If it needs a GPU, and there is none.
        ServiceError: If a server that is to generate does not answer.
    """
    on_gpu = libraries.has_gpu()
    grpo_config: type = libraries.load("trl").GRPOConfig
    fields = checked_fields(config.trl_fields, grpo_config)
    config = config.model_copy(update={"set": fields})
    check_vllm(config, world_size=world_size)
    division = Division.of(config, world_size)
    if config.batch_size % division.parts:
        raise UsageError(
            f"batch_size {config.batch_size} is not divisible by {world_size} processes"
            f" times gradient_accumulation_steps={division.accumulation}",
            hint="choose a multiple, or `set` gradient_accumulation_steps=1",
            fields=("batch_size", "set"),
        )
    check_filled(config, len(sets.train), processes=world_size)
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
        "max_tool_calling_iterations": config.max_tool_calls,
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
    arguments |= vllm_arguments(config)
    try:
        return grpo_config(**{**arguments, **fields})
    except (ValueError, TypeError, ArithmeticError, ImportError) as error:
        raise UsageError(f"TRL refuses this configuration: {libraries.first_line(error)}") from error


def _check_evaluation_batch(fields: Mapping[str, JsonValue], answers: int, world_size: int) -> None:
    """Makes sure that a user's batch of an evaluation has whole groups; TRL checks this only where it evaluates."""
    batch = fields.get("per_device_eval_batch_size")
    if batch is not None and (int(str(batch)) < 1 or int(str(batch)) * world_size % answers):
        raise UsageError(
            f"set per_device_eval_batch_size={batch}: times {world_size} processes, it must be a multiple of"
            f" {answers} answers to each problem",
            hint="leave it out",
            fields=("set", "eval_samples"),
        )
