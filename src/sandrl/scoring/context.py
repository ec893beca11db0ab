"""The context of completions, which decides their verdicts: that of a batch, or of one of many requests to a service.

Everything that a client's options can change (limits, results of trials under these limits, names of verdicts) belongs
to its context, so clients with different options share the sandboxes of a process, but nothing that decides a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from sandrl.judge.judge import Judge
from sandrl.judge.limits import Limits
from sandrl.sandboxes import Connection
from sandrl.scoring.cache import VerdictNames
from sandrl.scoring.options import ScoreOptions


@dataclass(frozen=True, slots=True, eq=False)
class ScoringContext:
    """How completions are judged and rewarded.

    Attributes:
        limits: What a completion may use, and whether checks after one that fails are left out.
        image: The image of the sandboxes that judge; empty for that of the job.
    """

    options: ScoreOptions
    judge: Judge
    names: VerdictNames
    limits: Limits
    image: str = ""

    def with_image(self, connection: Connection) -> ScoringContext:
        """The same in sandboxes of an image, whose connection is `connection`."""
        judge = self.judge.with_image(connection)
        names = VerdictNames(judge, connection, self.limits, self.options.trial)
        return replace(self, judge=judge, names=names, image=connection.image)

    @classmethod
    def of(cls, options: ScoreOptions, judge: Judge, connection: Connection) -> Self:
        limits = options.judged_limits
        return cls(options, judge, VerdictNames(judge, connection, limits, options.trial), limits)
