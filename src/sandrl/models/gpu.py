"""Detects a GPU that CUDA can use by asking the driver, because importing torch for that takes seconds."""

from __future__ import annotations

import ctypes
from contextlib import suppress

from sandrl.errors import HardwareError

_DRIVER = "libcuda.so.1"


def gpu_count() -> int:
    """How many GPUs the CUDA driver finds; 0 where there is no driver."""
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
