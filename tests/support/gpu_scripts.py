"""A script of `tools/gpu`, tried on the processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.tinker_server.process import ROOT


def tried_on_the_processor(script: str, directory: Path) -> dict[str, str]:
    """Runs a script without a GPU.

    Returns:
        The state of each check, by its name.
    """
    argv = [sys.executable, str(ROOT / "tools" / "gpu" / f"{script}.py"), "--on-cpu", "--steps", "4"]
    done = subprocess.run(
        [*argv, "--work", "work", "--json", "report.json"],
        capture_output=True,
        text=True,
        cwd=directory,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
        timeout=800,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((directory / "report.json").read_text())
    return {check["name"]: check["state"] for check in report["checks"]}
