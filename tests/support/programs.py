"""Tests that need a Debian program skip where it is missing, and fail in CI, which promises to install it."""

from __future__ import annotations

import os
import shutil

import pytest


def require_program(name: str) -> str:
    """Returns the path of a program, or skips the calling test with a reason.

    With `SANDRL_REQUIRE_PROGRAMS=1` a missing program is a failure: a silent skip in CI would hide a missing install.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    reason = f"needs the program {name!r}, which is not on PATH"
    if os.environ.get("SANDRL_REQUIRE_PROGRAMS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
