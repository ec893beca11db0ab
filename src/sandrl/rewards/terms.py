"""The terms on which completions are judged: those of one batch, or of one request of many to a service.

The design decision: whatever the options of one client may change (limits, what a trial under these limits has found
out, names of verdicts) belongs to its terms. So clients of one process with different options share its sandboxes, and
nothing that decides a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sandrl.rewards.cache import VerdictNames
from sandrl.rewards.judge import Judge
from sandrl.rewards.limits import Limits
from sandrl.rewards.options import ScoreOptions
from sandrl.sandboxes import Connection


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """How completions are judged and rewarded.

    Attributes:
        options: How to score.
        judge: Decides what a completion did.
        names: Names its verdicts.
        limits: What a completion may use, and whether checks after one that fails are left out.
    """

    options: ScoreOptions
    judge: Judge
    names: VerdictNames
    limits: Limits

    @classmethod
    def of(cls, options: ScoreOptions, judge: Judge, connection: Connection) -> Self:
        """The terms of completions that are scored with these options on this runtime."""
        return cls(options, judge, VerdictNames(judge, connection, options.limits), options.judged_limits)
