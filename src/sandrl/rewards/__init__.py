"""The entry points of scoring: `score`, `reward_function`, and the runs of commands that score completions.

The public names below are loaded on first use, because the command line needs some of the light modules of this
package to show its help, and the heavy ones (pydantic, the SDK) only to work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandrl.answers.extraction import Extraction, extract, extract_code
    from sandrl.judge.guest_report import Execution
    from sandrl.judge.judge import Judge
    from sandrl.judge.limits import Limits
    from sandrl.judge.verdict import Verdict
    from sandrl.rewards.function import OnInfrastructureError, RewardFunction, reward_function
    from sandrl.rewards.reward_run import RewardRun
    from sandrl.rewards.run import run_reward
    from sandrl.rewards.scored_run import score_run
    from sandrl.rewards.scoring import score
    from sandrl.rewards.validation import Validation, validate
    from sandrl.scoring.cache import VerdictCache
    from sandrl.scoring.combination import CombinedRewards, combined_rewards
    from sandrl.scoring.document import report_document, result_document
    from sandrl.scoring.grading import Grading
    from sandrl.scoring.options import ScoreOptions, SecondOpinion
    from sandrl.scoring.policies import (
        POLICIES,
        Components,
        RewardPolicy,
        binary,
        fraction,
        load_policy,
        reward_of,
    )
    from sandrl.scoring.ranking import ranking
    from sandrl.scoring.summary import ScoreReport

__all__ = [
    "POLICIES",
    "CombinedRewards",
    "Components",
    "Execution",
    "Extraction",
    "Grading",
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
    "ranking",
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
    "scoring.cache": ("VerdictCache",),
    "scoring.combination": ("CombinedRewards", "combined_rewards"),
    "scoring.document": ("report_document", "result_document"),
    "answers.extraction": ("Extraction", "extract", "extract_code"),
    "rewards.function": ("OnInfrastructureError", "RewardFunction", "reward_function"),
    "scoring.grading": ("Grading",),
    "scoring.ranking": ("ranking",),
    "judge.guest_report": ("Execution",),
    "judge.judge": ("Judge",),
    "judge.limits": ("Limits",),
    "scoring.options": ("ScoreOptions", "SecondOpinion"),
    "scoring.policies": ("POLICIES", "Components", "RewardPolicy", "binary", "fraction", "load_policy", "reward_of"),
    "rewards.reward_run": ("RewardRun",),
    "rewards.run": ("run_reward",),
    "rewards.scored_run": ("score_run",),
    "rewards.scoring": ("score",),
    "scoring.summary": ("ScoreReport",),
    "rewards.validation": ("Validation", "validate"),
    "judge.verdict": ("Verdict",),
}
_MODULE_OF = {name: f"sandrl.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
