"""Conditions that must be met before anything is downloaded or started.

Each condition that is not met is one of sandrl's own errors with the next step, and the scripts end with exit code 2
for all of them, so that a failed condition is not confused with a failed check (exit code 1).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandrl.errors import HardwareError, ServiceError, UsageError
from sandrl.extras import check
from sandrl.installation import install_command
from sandrl.models import libraries
from sandrl.models.places import find_model
from tools.gpu.machine import Gpu, Torch, look_at_gpu, probe_torch

_BYTES_PER_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Needs:
    """What a script needs.

    Attributes:
        extra: The extra of sandrl.
        packages: The modules that must be installed, by their import names.
        gpu_gib: Free memory of the GPU.
        gpu_share: Free share of the memory of the GPU, from 0 to 1.
        disk_gib: Free disk space for run directories.
    """

    extra: str
    packages: Sequence[str]
    gpu_gib: float
    disk_gib: float
    gpu_share: float = 0.0


def check_gpu(needs: Needs) -> Gpu:
    """Makes sure that there is a GPU with enough free memory.

    Raises:
        HardwareError: If there is none, or its memory is in use.
    """
    gpu = look_at_gpu()
    wanted_gib = max(needs.gpu_gib, needs.gpu_share * gpu.total_mib / 1024)
    if gpu.free_gib < wanted_gib:
        raise HardwareError(
            f"{gpu.name} has {gpu.free_gib:.1f} GiB of free memory, and {wanted_gib:.1f} GiB are needed",
            hint="end other programs that use the GPU, or choose another one with CUDA_VISIBLE_DEVICES",
        )
    return gpu


def check_packages(needs: Needs) -> None:
    """Makes sure that the libraries are installed, without importing any.

    Raises:
        MissingExtraError: If one is not.
    """
    check(needs.packages, extra=needs.extra)


def check_torch(needs: Needs) -> Torch:
    """Makes sure that torch can use the GPU.

    Raises:
        HardwareError: If it cannot.
    """
    torch = probe_torch()
    if not torch.is_available:
        why = "was built without CUDA" if torch.cuda is None else f"was built for CUDA {torch.cuda} and detects no GPU"
        hint = f"{install_command(needs.extra)} in a new environment; a newer driver, if the driver is too old"
        raise HardwareError(f"torch {torch.version} {why}", hint=hint)
    return torch


def check_model(name: str) -> None:
    """Makes sure that a model is a directory, is in the hub's cache, or can be downloaded.

    Raises:
        InputError: If the directory holds no model, or the name is none of a model.
        ServiceError: If the hub does not answer, and the model is not in its cache.
    """
    place = find_model(name)
    if place.is_directory or not place.is_offline:
        return
    hub = libraries.load("huggingface_hub")
    if not isinstance(hub.try_to_load_from_cache(name, "config.json"), str):
        raise ServiceError(
            f"the hub does not answer, and {name} is not in its cache",
            hint="use a model on this machine with --model DIRECTORY",
        )


def check_disk(directory: Path, needs: Needs) -> None:
    """Makes sure that checkpoints have room.

    Raises:
        UsageError: If they have not.
    """
    place = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    free_gib = shutil.disk_usage(place).free / _BYTES_PER_GIB
    if free_gib < needs.disk_gib:
        raise UsageError(
            f"{place} has {free_gib:.1f} GiB of free space, and {needs.disk_gib:.1f} GiB are needed",
            hint="select another directory for the runs with --work DIRECTORY",
        )
