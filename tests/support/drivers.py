"""Runs a program of this directory with a launcher, as the tests' user or as another one who has no rights."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).parent
SOURCES = SUPPORT.parents[1] / "src"
SYSTEM_PYTHON = "/usr/bin/python3"
UNPRIVILEGED_UID = 65534


def answer_of(place: Path, mode: str, driver: str, *arguments: str, texts: tuple[str, ...] = ()) -> str:
    """The last line that a driver prints.

    `mode` is the launcher, which may be followed by `as another user`; that user can enter `place`, an empty directory,
    and read `texts`.
    """
    command = [sys.executable, str(SUPPORT / driver)]
    source, drop = SOURCES, dict[str, Any]()
    if "another user" in mode:
        command[0] = _python_for_others()
        source = place / "src"
        shutil.copytree(SOURCES, source, ignore=shutil.ignore_patterns("__pycache__"))
        for name in (driver, *texts):
            shutil.copy(SUPPORT / name, place)
        command[1] = str(place / driver)
        subprocess.run(["chmod", "-R", "a+rX", str(place)], check=True)
        if os.getuid() == 0:
            drop = {"user": UNPRIVILEGED_UID, "group": UNPRIVILEGED_UID, "extra_groups": []}
    state = place / "state"
    state.mkdir()
    if drop:
        os.chown(state, UNPRIVILEGED_UID, UNPRIVILEGED_UID)
    result = subprocess.run(
        [*command, mode.split()[0], str(state), *arguments],
        env={"PATH": os.defpath, "PYTHONPATH": str(source), "A_SECRET": "sk-123"},
        capture_output=True,
        text=True,
        timeout=120,
        **drop,
    )
    assert result.returncode == 0, result.stderr
    last: str = result.stdout.splitlines()[-1]
    return last


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
