"""Removes runs, but never a run whose job is still writing it.

The writer's own lock is held while the directory is deleted, so no job can begin to write, or resume, this run.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sandrl.errors import UsageError
from sandrl.runs.config import read_config
from sandrl.runs.directory import lock
from sandrl.runs.index import forget_run


def remove_run(path: Path, state_dir: Path) -> None:
    """Removes a run directory and its entry in the index.

    Raises:
        InputError: If it is no run directory.
        UsageError: If a job is writing it, or it cannot be removed.
    """
    real = Path(os.path.realpath(path))
    read_config(real)
    try:
        descriptor = lock(real)
    except UsageError as error:
        raise UsageError(error.message, hint="end its job first") from error
    try:
        shutil.rmtree(real)
    except OSError as error:
        raise UsageError(f"{error.filename or real}: cannot be removed: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if path.is_symlink():
        path.unlink(missing_ok=True)
    forget_run(path, state_dir)
