"""An environment for SkyRL-Gym: one turn, in which the model answers with code.

`CodeEnv` is the class (`sandrl.integrations.classes.skyrl_gym`), which is created on use.
"""

from __future__ import annotations

from typing import Any

from sandrl import extras
from sandrl.integrations.request import RewardRequest

PACKAGE = "skyrl-gym"
ENTRY_POINT = "sandrl.integrations.skyrl_gym:CodeEnv"


def register(id: str = "sandrl", **options: Any) -> None:
    """Registers the environment, in the process that makes environments: with SkyRL, in the entry point of its task.

    Args:
        id: The `env_class` of rows.
        options: Options of all its environments; see `CodeEnv`.

    Raises:
        MissingExtraError: If `skyrl-gym` is not installed.
        UsageError: If an option is impossible.
    """
    gym = extras.require("skyrl_gym", package=PACKAGE)
    RewardRequest.of(options)
    gym.register(id=id, entry_point=ENTRY_POINT, kwargs=options)


def __getattr__(name: str) -> Any:
    if name != "CodeEnv":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return extras.require("sandrl.integrations.classes.skyrl_gym", package=PACKAGE).CodeEnv
