"""Training with Unsloth for real: skipped where it is not installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MISSING = [name for name in ("torch", "trl", "unsloth") if not importlib.util.find_spec(name)]

# The first command of a session makes the tiny policy, which on a busy machine takes minutes.
LONGEST_SECONDS = 500

Command = Callable[..., subprocess.CompletedProcess[str]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what trains where nothing can."""
    if MISSING:
        reason = f"not installed: {', '.join(MISSING)} (make test-unsloth)"
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def sandrl(tmp_path: Path) -> Command:
    """Runs `sandrl` in a directory of its own; keeps its run directories in `runs` there."""

    def run(*words: str | Path, kill_at: str | None = None) -> subprocess.CompletedProcess[str]:
        """Args:
        words: The command line.
        kill_at: How the line of output begins at which the command is killed.
        """
        # As far as Unsloth is concerned, nobody has chosen a place for what it compiles.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UNSLOTH_")}
        environment |= {"OMP_NUM_THREADS": "1", "SANDRL_RUNS_DIR": str(tmp_path / "runs"), "CUDA_VISIBLE_DEVICES": ""}
        argv = [sys.executable, "-m", "sandrl", *map(str, words)]
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
        ) as process:
            assert process.stdout is not None
            for line in process.stdout if kill_at else ():
                if kill_at and line.startswith(kill_at):
                    process.kill()
                    break
            try:
                stdout, stderr = process.communicate(timeout=LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)

    return run
