"""Generation with vLLM: TRL's settings for it, and the checks of its prerequisites.

TRL's own integration generates, and all but three of its fields are set through `set`. Errors that TRL detects late
(after the policy is loaded, or after waiting minutes for a server) are detected here, so that `--dry-run` reports them.
Sampling settings need no code: TRL sends vLLM each setting that vLLM would take from the model's own generation
settings (`top_k`, `top_p`, `min_p`, `repetition_penalty`, `temperature`, `max_tokens`), in both modes.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from sandrl.config.grpo import GrpoConfig
from sandrl.errors import HardwareError, MissingExtraError, ServiceError, UsageError
from sandrl.installation import package_command
from sandrl.models import libraries
from sandrl.models.generation import NEUTRAL
from sandrl.problems.hub import hub_answers

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


def check_vllm(config: GrpoConfig, *, world_size: int) -> None:
    """Makes sure that vLLM can generate, where it is to.

    Args:
        config: What was asked for, with typed fields.
        world_size: How many processes train together.

    Raises:
        HardwareError: If there is no GPU.
        MissingExtraError: If vLLM is not installed.
        UsageError: If a field would have no effect, or vLLM cannot have this value.
        ServiceError: If its server does not answer.
    """
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
        address = server_address(config)
        if not hub_answers(f"{address}/health"):
            raise ServiceError(
                f"no vLLM server answers at {address}",
                hint="start it before the training (`vllm serve MODEL`), or give its address with `vllm_server_url`",
                fields=("vllm_server_url",),
            )


def _check_fields(config: GrpoConfig, world_size: int) -> None:
    """Makes sure that every field for vLLM has an effect: TRL ignores those of another mode without a word."""
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


def server_address(config: GrpoConfig) -> str:
    """Where TRL looks for the server."""
    if config.vllm_server_url is not None:
        return config.vllm_server_url.rstrip("/")
    host, port = config.set.get("vllm_server_host", _HOST), config.set.get("vllm_server_port", _PORT)
    return f"http://{host}:{port}"


def vllm_arguments(config: GrpoConfig) -> Mapping[str, Any]:
    """The fields of TRL's `GRPOConfig` that say whether and where vLLM generates; nothing without vLLM."""
    if config.vllm is None:
        return {}
    return {"use_vllm": True, "vllm_mode": config.vllm, "vllm_server_base_url": config.vllm_server_url}
