"""How many sandboxes a job has at once, as far as that can be computed before a runtime is contacted."""

from __future__ import annotations

import os

from sandrl.runtime import limits
from sandrl.settings import RuntimeKind

CORES_OF_WORKER = 8
"""There is one worker sandbox for this many processors."""
WINDOW = 32
"""How many commands a worker has at once, including those that wait in it for a cell."""


def worker_count(concurrency: int | None, max_sandboxes: int | None) -> int:
    """How many worker sandboxes a job has.

    Args:
        concurrency: How many completions at once, all in one worker; None to decide by the processors of this machine.
    """
    if concurrency:
        return 1
    wanted = -(-(os.cpu_count() or 1) // CORES_OF_WORKER)
    return min(wanted, max_sandboxes or wanted)


def cells_at_once(concurrency: int | None, workers: int, cores: int) -> int:
    """How many cells all workers have at once, on a machine with `cores` processors."""
    places = concurrency or -(-cores // workers) * workers
    return max(min(places, limits.MAX_CELLS * workers), 1)


def suited_concurrency(kind: str) -> int | None:
    """How many fresh sandboxes at once suit a runtime; None if only the runtime itself has that number."""
    if kind in (RuntimeKind.LOCAL, RuntimeKind.DAEMONLESS):
        from sandrl.runtime.usage import suggested_concurrency

        return suggested_concurrency()
    if kind == RuntimeKind.REMOTE:
        from sandrl.sandboxes.providers.remote import CONCURRENCY

        return CONCURRENCY
    return None
