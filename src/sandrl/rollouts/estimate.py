"""Estimates the sandboxes that episodes would use, before an episode is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sandrl.config.episodes import EpisodesConfig
from sandrl.config.words import EpisodeKind
from sandrl.problems import Problem
from sandrl.rewards.estimate import SandboxEstimate, estimate_sandboxes
from sandrl.scoring.options import ScoreOptions
from sandrl.settings import Settings


def estimate_episodes(
    config: EpisodesConfig,
    settings: Settings,
    *,
    command: str,
    problems: Sequence[Problem],
    episodes: int,
    run: Path | None = None,
) -> SandboxEstimate:
    """Makes the estimate of some episodes.

    Args:
        config: How they are played.
        settings: What the environment says.
        command: The command.
        problems: The problems, in turn.
        episodes: How many there are in all.
        run: The run that goes on.

    Raises:
        BudgetError: If earlier jobs of the run have used the budget up.
        UsageError: If an option, or the budget, cannot be used.
    """
    has_tools = config.rollout is EpisodeKind.TOOLS
    # With tools the last submission is judged; else each attempt is.
    judged = 1 if has_tools else config.max_attempts
    share, rest = divmod(episodes, max(len(problems), 1))
    return estimate_sandboxes(
        config,
        ScoreOptions.of(config).limits,
        settings,
        command=command,
        counts=[(each, (share + (place < rest)) * judged) for place, each in enumerate(problems)],
        episode_sandboxes=episodes if has_tools else 0,
        run=run,
        is_open_ended=True,
    )
