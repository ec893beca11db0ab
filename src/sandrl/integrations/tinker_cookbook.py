"""Sandboxes for tinker-cookbook (0.6.1 and newer): `SandrlSandbox`, `task_sandbox` and `LostSandboxes`.

They (`sandrl.integrations.classes.tinker_cookbook`) are created on use.
"""

from __future__ import annotations

from typing import Any

from sandrl import extras

PACKAGE = "tinker-cookbook>=0.6.1"


def __getattr__(name: str) -> Any:
    if name not in ("SandrlSandbox", "task_sandbox", "LostSandboxes"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(extras.require("sandrl.integrations.classes.tinker_cookbook", package=PACKAGE), name)
