"""Loads the libraries that train, late and without their output.

These libraries log, warn and draw progress bars on the same terminal, each in its own way. This module silences all of
that in one place, because events carry the information that users need; errors of the libraries are kept.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from sandrl import extras
from sandrl.errors import HardwareError
from sandrl.installation import installed_version

EXTRA = "grpo"
PACKAGES = ("torch", "transformers", "trl", "datasets", "accelerate", "peft")

_QUIET = {
    "TRANSFORMERS_VERBOSITY": "error",
    "DATASETS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    # Tokenizers would start threads, and complain in every process forked after that.
    "TOKENIZERS_PARALLELISM": "false",
}


def load(module: str) -> ModuleType:
    """Imports one of the libraries, or a part of it; `MissingExtraError` if it is not installed."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    return extras.require(module, extra=EXTRA)


_LOGGERS = ("transformers", "trl", "accelerate", "datasets", "torch", "peft")


@contextmanager
def without_warnings(names: Iterable[str] = _LOGGERS) -> Iterator[None]:
    """Silences the libraries' loggers and warnings for the length of a `with` block; imports none of them."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextmanager
def kept_quiet() -> Iterator[None]:
    """Keeps the libraries from the terminal for the length of a `with` block."""
    with without_warnings():
        bars = load("transformers.utils.logging")
        has_bars = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()
        try:
            yield
        finally:
            if has_bars:
                bars.enable_progress_bar()


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """The versions of those packages that are installed: a model needs no trainer to be evaluated."""
    found = {package: installed_version(package) for package in packages}
    return {package: version for package, version in found.items() if version is not None}


def has_gpu() -> bool:
    return bool(load("torch").cuda.is_available())


def first_line(error: BaseException) -> str:
    """What one of their errors says, in one line."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def keywords(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A field of TRL's configuration with keyword arguments: a table, or JSON text of one; empty if it is not set."""
    given = fields.get(name) or {}
    return dict(json.loads(given) if isinstance(given, str) else given)


_DRIVER = "libcuda.so.1"


def gpu_count() -> int:
    """How many GPUs the CUDA driver finds, 0 where there is none: importing torch for that takes seconds."""
    with suppress(OSError, AttributeError):
        driver = ctypes.CDLL(_DRIVER)
        count = ctypes.c_int()
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0


def check_gpu() -> None:
    if not gpu_count():
        raise HardwareError(
            "backend local needs a GPU with CUDA, and this machine has none",
            hint="`backend` tinker trains elsewhere; `backend` embedded trains a small model on the processor",
            fields=("backend",),
        )
