"""Tests that need a Debian program skip where it is missing, and fail in CI, which promises to install it."""

from __future__ import annotations

import os
import shutil

import pytest

from sandrl.answers.builds import SEARCHED
from sandrl.problems.languages import language_named


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


def require_language(name: str) -> None:
    """Skips the calling test where this machine has not the tools of a language; fails in CI, which installs them."""
    language = language_named(name)
    tools = {command[0] for form in language.forms for command in (form.compile, form.run, language.version) if command}
    missing = [tool for tool in tools if not tool.startswith(".") and shutil.which(tool, path=SEARCHED) is None]
    if missing and os.environ.get("SANDRL_REQUIRE_PROGRAMS") == "1":
        pytest.fail(f"needs {', '.join(missing)} in {SEARCHED}")
    if missing:
        pytest.skip(f"needs {', '.join(missing)} in {SEARCHED}")
