"""How to score: everything about it that is neither the completions nor the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandrl.rewards.extraction import Extraction
from sandrl.rewards.judge import Limits
from sandrl.rewards.policies import Components, RewardPolicy, binary


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """How to score.

    Attributes:
        extraction: Where in a completion its code is.
        limits: What a completion may use.
        concurrency: How many sandboxes at once; what suits the runtime unless given.
        retries: How often a completion is tried again when its sandbox failed.
        backoff_seconds: How long to wait before the first of these; each next wait is twice as long.
        policy: From verdict to reward.
        components: What is rewarded besides; never part of the reward itself.
        caching: Judge identical completions once.
        tags: Tags of these sandboxes, beyond those of their job.
    """

    extraction: Extraction = Extraction.AUTO
    limits: Limits = field(default_factory=Limits)
    concurrency: int | None = None
    retries: int = 2
    backoff_seconds: float = 0.5
    policy: RewardPolicy = binary
    components: Components = field(default_factory=Components)
    caching: bool = True
    tags: tuple[str, ...] = ()
