"""Free memory where the models are: on the GPU, or on this machine."""

from __future__ import annotations

import torch


def free_bytes() -> int:
    """How many bytes could be allocated, caches that can be dropped included."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    with open("/proc/meminfo", encoding="ascii") as file:
        found = dict(line.split(":", 1) for line in file)
    return int(found["MemAvailable"].split()[0]) << 10
