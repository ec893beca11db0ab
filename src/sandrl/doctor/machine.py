"""What the machine has: a GPU, asked of its driver and not of torch, which takes seconds to load."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sandrl.doctor.report import Check, State

_QUERY = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
_TIMEOUT_SECONDS = 4.0
_DRIVER = Path("/proc/driver/nvidia/gpus")


def gpu_check(driver: Path = _DRIVER) -> Check:
    """The GPUs there are.

    Args:
        driver: Where the kernel driver lists them.
    """
    found = _asked() or _listed(driver)
    if not found:
        return Check("GPU", State.ABSENT, "none; trainers that need one say so, the others use the processor")
    kinds = {name: found.count(name) for name in found}
    return Check("GPU", State.OK, "; ".join(f"{count} × {name}" for name, count in kinds.items()))


def _asked() -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *_QUERY],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []  # a driver that is broken or of another version: the kernel may still say what there is
    return [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]


def _listed(driver: Path) -> list[str]:
    names = []
    for path in sorted(driver.glob("*/information")):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        names.append(" ".join(fields.get("Model", "a GPU without a name").split()))
    return names
