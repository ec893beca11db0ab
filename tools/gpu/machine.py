"""Describes the GPU and the installed packages, without loading torch into this process.

`nvidia-smi` measures memory, because it includes the memory of all processes: of training, and of vLLM.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Self

from sandrl.errors import HardwareError

MIB_PER_GIB = 1024
_FIELDS = ("index", "uuid", "name", "memory.total", "memory.used", "driver_version")
_TIMEOUT_SECONDS = 30.0
_LIBRARIES = (
    *("sandrl", "torch", "transformers", "trl", "accelerate", "peft", "datasets", "vllm", "unsloth", "unsloth_zoo"),
    *("bitsandbytes", "triton", "xformers", "openpipe-art", "cwsandbox"),
)
_PROBE = (
    "import json, torch; on = torch.cuda.is_available(); print(json.dumps({'torch': torch.__version__,"
    " 'cuda': torch.version.cuda, 'is_available': on, 'bf16': on and torch.cuda.is_bf16_supported(),"
    " 'capability': '.'.join(map(str, torch.cuda.get_device_capability())) if on else None}))"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, as `nvidia-smi` describes it at one moment.

    Attributes:
        index: Its number on this machine.
        uuid: Its name among all GPUs.
        name: Its model.
        total_mib: Its memory.
        used_mib: How much of it all processes use together.
        driver: The version of the driver.
    """

    index: int
    uuid: str
    name: str
    total_mib: int
    used_mib: int
    driver: str

    @property
    def free_gib(self) -> float:
        """Memory that nobody uses."""
        return (self.total_mib - self.used_mib) / MIB_PER_GIB


def look_at_gpu() -> Gpu:
    """The GPU that CUDA would use first: the first one of `CUDA_VISIBLE_DEVICES`, or of the machine.

    Raises:
        HardwareError: If there is none, or `nvidia-smi` is not there or fails.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        raise HardwareError(
            "no GPU was found: `nvidia-smi` is not installed", hint="use a machine with an NVIDIA GPU and its driver"
        )
    query = [program, f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True)
        found = [_gpu(line) for line in done.stdout.splitlines() if line.strip()]
    except subprocess.CalledProcessError as error:
        said = (error.stdout + error.stderr).strip().split("\n")[0]
        raise HardwareError(f"no GPU was found: nvidia-smi reports: {said}") from error
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise HardwareError(f"no GPU was found: nvidia-smi cannot be used: {error}") from error
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = _chosen(found, wanted)
    if chosen is None:
        where = "" if wanted is None else f" among CUDA_VISIBLE_DEVICES={wanted}"
        raise HardwareError(f"no GPU was found{where}")
    return chosen


def _gpu(line: str) -> Gpu:
    index, uuid, name, total, used, driver = (part.strip() for part in line.split(","))
    return Gpu(int(index), uuid, name, int(total), int(used), driver)


def _chosen(found: list[Gpu], wanted: str | None) -> Gpu | None:
    if wanted is None:
        return next(iter(found), None)
    first = wanted.split(",")[0].strip()
    return next((gpu for gpu in found if first and (str(gpu.index) == first or gpu.uuid.startswith(first))), None)


class MemoryWatch:
    """Notes the most GPU memory that is used while a `with` block lasts.

    Args:
        every_seconds: How often it looks.

    Attributes:
        peak_mib: The most that was seen; None if nothing could be measured.
    """

    def __init__(self, every_seconds: float = 1.0) -> None:
        self.peak_mib: int | None = None
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            # A driver that does not answer once is asked again.
            with suppress(HardwareError):
                self.peak_mib = max(self.peak_mib or 0, look_at_gpu().used_mib)
            if self._over.wait(self._every_seconds):
                return


@dataclass(frozen=True, slots=True)
class Torch:
    """What torch says of itself and of the GPU.

    Attributes:
        version: Its version.
        cuda: The version of CUDA it was built with; None without CUDA.
        is_available: Whether it finds a GPU that it can use.
        bf16: Whether that GPU calculates with bfloat16.
        capability: The compute capability of that GPU.
    """

    version: str
    cuda: str | None
    is_available: bool
    bf16: bool
    capability: str | None


def probe_torch() -> Torch:
    """Asks torch, in a process of its own.

    Raises:
        HardwareError: If torch cannot be imported.
    """
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise HardwareError(f"torch cannot be imported: {said}")
    found = json.loads(lines[-1])
    return Torch(found["torch"], found["cuda"], found["is_available"], found["bf16"], found["capability"])


def versions() -> dict[str, str]:
    """Python, the system, and what is installed of the libraries that matter."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
