"""Reinforcement learning with rewards from code execution in isolated sandboxes.

The public names below are loaded on first use: `import sandrl` itself is fast and needs only the standard library,
because the sandbox launcher imports this package in an interpreter that has no site-packages.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandrl.errors import (
        AuthenticationError,
        CleanupError,
        GateError,
        HardwareError,
        InfrastructureError,
        InputError,
        InterruptedRunError,
        MissingExtraError,
        RuntimeUnavailableError,
        SandrlError,
        ServiceError,
        TrainingError,
        UsageError,
    )
    from sandrl.problems import Case, Completion, Problem, load_completions, load_problems
    from sandrl.rewards import Verdict, combined_rewards, reward_function, score

__version__ = "0.1.0"

__all__ = [
    "AuthenticationError",
    "Case",
    "CleanupError",
    "Completion",
    "GateError",
    "HardwareError",
    "InfrastructureError",
    "InputError",
    "InterruptedRunError",
    "MissingExtraError",
    "Problem",
    "RuntimeUnavailableError",
    "SandrlError",
    "ServiceError",
    "TrainingError",
    "UsageError",
    "Verdict",
    "combined_rewards",
    "load_completions",
    "load_problems",
    "reward_function",
    "score",
]

# Where a public name lives; the ones not listed are errors.
_MODULE_OF = {
    "Case": "sandrl.problems",
    "Completion": "sandrl.problems",
    "Problem": "sandrl.problems",
    "Verdict": "sandrl.rewards",
    "combined_rewards": "sandrl.rewards",
    "load_completions": "sandrl.problems",
    "load_problems": "sandrl.problems",
    "reward_function": "sandrl.rewards",
    "score": "sandrl.rewards",
}
# Public packages, which `import sandrl` makes available as `sandrl.rewards` and so on.
_PACKAGES = frozenset({"client", "events", "integrations", "rewards"})


def __getattr__(name: str) -> object:
    """Loads a public name from the module that defines it, or a public package."""
    if name in _PACKAGES:
        return importlib.import_module(f"sandrl.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_MODULE_OF.get(name, "sandrl.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
