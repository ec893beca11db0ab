"""An environment for Harbor (0.25 and newer), named by its import path: `sandrl.integrations.harbor:SandrlEnvironment`.

The class (`sandrl.integrations.classes.harbor`) is created on use.
"""

from __future__ import annotations

from typing import Any

from sandrl import extras

PACKAGE = "harbor>=0.25"


def __getattr__(name: str) -> Any:
    if name != "SandrlEnvironment":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return extras.require("sandrl.integrations.classes.harbor", package=PACKAGE).SandrlEnvironment
