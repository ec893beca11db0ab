"""Runs a program of this directory with a launcher, as the tests' user or as another one who has no rights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parent
SOURCES = SUPPORT.parents[1] / "src"
SYSTEM_PYTHON = "/usr/bin/python3"
UNPRIVILEGED_UID = 65534


def answer_of(
    place: Path,
    mode: str,
    driver: str,
    *arguments: str,
    texts: tuple[str, ...] = (),
    user: int = UNPRIVILEGED_UID,
    timeout_seconds: int = 120,
) -> Any:
    """What a driver prints last, which is JSON.

    `mode` is the launcher, which may be followed by `as another user`; that user can enter `place` and read `texts`.
    """
    command = [sys.executable, str(SUPPORT / driver)]
    source, drop = SOURCES, dict[str, Any]()
    if "another user" in mode:
        command[0] = _python_for_others()
        source = place / "src"
        shutil.copytree(SOURCES, source, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        for name in (driver, "launchers.py", *texts):
            shutil.copy(SUPPORT / name, place)
        command[1] = str(place / driver)
        subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
        if os.getuid() == 0:
            drop = {"user": user, "group": user, "extra_groups": []}
    state = Path(tempfile.mkdtemp(prefix="state-", dir=place))
    if drop:
        os.chown(state, user, user)
    environment = {"PATH": os.defpath, "PYTHONPATH": str(source), "A_SECRET": "sk-123"}
    result = subprocess.run(
        [*command, str(state), *arguments],
        env=environment | {"SANDRL_RUNTIME_ISOLATION": mode.split()[0]},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        **drop,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


# The interpreter of this environment may lie in root's home.
def _python_for_others() -> str:
    version = subprocess.run(
        [SYSTEM_PYTHON, "-c", "import sys; print(sys.version_info >= (3, 11))"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if version != "True":
        pytest.skip("no system interpreter of Python 3.11 or newer to run as another user")
    return SYSTEM_PYTHON
