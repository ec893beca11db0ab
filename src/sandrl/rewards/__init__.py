"""Rewards for completions: extracts the code, judges it, scores the verdict, and summarises the results.

The public names below are loaded on first use, because the command line needs some of the light modules of this
package to show its help, and the heavy ones (pydantic, the SDK) only to work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandrl.rewards.cache import VerdictCache
    from sandrl.rewards.combination import CombinedRewards, combined_rewards
    from sandrl.rewards.document import report_document, result_document
    from sandrl.rewards.extraction import Extraction, extract, extract_code
    from sandrl.rewards.function import OnInfrastructureError, RewardFunction, reward_function
    from sandrl.rewards.guest_report import Execution
    from sandrl.rewards.judge import Judge
    from sandrl.rewards.limits import Limits
    from sandrl.rewards.options import ScoreOptions, SecondOpinion
    from sandrl.rewards.policies import (
        POLICIES,
        Components,
        RewardPolicy,
        binary,
        fraction,
        load_policy,
        reward_of,
    )
    from sandrl.rewards.reward_run import RewardRun
    from sandrl.rewards.run import run_reward
    from sandrl.rewards.scored_run import score_run
    from sandrl.rewards.scoring import score
    from sandrl.rewards.summary import ScoreReport
    from sandrl.rewards.validation import Validation, validate
    from sandrl.rewards.verdict import Verdict

__all__ = [
    "POLICIES",
    "CombinedRewards",
    "Components",
    "Execution",
    "Extraction",
    "Judge",
    "Limits",
    "OnInfrastructureError",
    "RewardFunction",
    "RewardPolicy",
    "RewardRun",
    "ScoreOptions",
    "ScoreReport",
    "SecondOpinion",
    "Validation",
    "Verdict",
    "VerdictCache",
    "binary",
    "combined_rewards",
    "extract",
    "extract_code",
    "fraction",
    "load_policy",
    "report_document",
    "result_document",
    "reward_function",
    "reward_of",
    "run_reward",
    "score",
    "score_run",
    "validate",
]

_MODULES = {
    "cache": ("VerdictCache",),
    "combination": ("CombinedRewards", "combined_rewards"),
    "document": ("report_document", "result_document"),
    "extraction": ("Extraction", "extract", "extract_code"),
    "function": ("OnInfrastructureError", "RewardFunction", "reward_function"),
    "guest_report": ("Execution",),
    "judge": ("Judge",),
    "limits": ("Limits",),
    "options": ("ScoreOptions", "SecondOpinion"),
    "policies": ("POLICIES", "Components", "RewardPolicy", "binary", "fraction", "load_policy", "reward_of"),
    "reward_run": ("RewardRun",),
    "run": ("run_reward",),
    "scored_run": ("score_run",),
    "scoring": ("score",),
    "summary": ("ScoreReport",),
    "validation": ("Validation", "validate"),
    "verdict": ("Verdict",),
}
_MODULE_OF = {name: f"sandrl.rewards.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
