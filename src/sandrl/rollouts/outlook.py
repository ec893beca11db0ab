"""Estimates the sandboxes that episodes would use, before an episode is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sandrl.config.episodes import EpisodesConfig
from sandrl.config.words import EpisodeKind
from sandrl.problems import Problem
from sandrl.rewards.options import ScoreOptions
from sandrl.rewards.outlook import Outlook, Wanted, outlook_of
from sandrl.settings import Settings


def outlook_of_episodes(
    config: EpisodesConfig,
    settings: Settings,
    *,
    command: str,
    problems: Sequence[Problem],
    episodes: int,
    run: Path | None = None,
) -> Outlook:
    has_tools = config.rollout is EpisodeKind.TOOLS
    # With tools the last submission is judged; else each attempt is.
    judged = 1 if has_tools else config.max_attempts
    share, rest = divmod(episodes, max(len(problems), 1))
    return outlook_of(
        config,
        ScoreOptions.of(config).limits,
        settings,
        command=command,
        wanted=[Wanted(each, (share + (place < rest)) * judged) for place, each in enumerate(problems)],
        own_sandboxes=episodes if has_tools else 0,
        run=run,
        is_open_ended=True,
    )
