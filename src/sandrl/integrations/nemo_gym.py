"""NeMo-Gym (0.4 and newer): its sandboxes, found by an entry point, and a resources server that gives our rewards.

The classes (`sandrl.integrations.classes.nemo_gym` and `….nemo_gym_server`) are created on use.
"""

from __future__ import annotations

from typing import Any

from sandrl import extras

PACKAGE = "nemo-gym>=0.4"
_CLASSES = {
    "SandrlProvider": "sandrl.integrations.classes.nemo_gym",
    "CodeServer": "sandrl.integrations.classes.nemo_gym_server",
}


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(extras.require(_CLASSES[name], package=PACKAGE), name)
