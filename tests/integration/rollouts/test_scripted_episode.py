"""`art rollout` plays the scripted conversation: every observation is the one that each trainer must give, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sandrl.config.episodes import RolloutConfig
from sandrl.config.words import EpisodeKind
from sandrl.rollouts.run import run_rollouts
from sandrl.runs import RunReader, TrajectoryRow, disagreements
from sandrl.settings import RuntimeKind, load_settings
from tests.support.scripted_episode import (
    MOST_CALLS,
    SPENT,
    SUBMITTED,
    TIMEOUT_SECONDS,
    TOOL_SET,
    Call,
    count,
    problems_file,
    script,
    told,
)
from tests.support.scripted_model import MODEL, ScriptedModel


def played(messages: Sequence[Sequence[Call]], max_calls: int, directory: Path) -> TrajectoryRow:
    with ScriptedModel(script(messages)) as server:
        request = RolloutConfig(
            model=MODEL,
            base_url=server.base_url,
            problems=str(problems_file(directory)),
            steps=1,
            problems_per_step=1,
            rollout=EpisodeKind.TOOLS,
            tools=TOOL_SET,
            max_tool_calls=max_calls,
            timeout_seconds=TIMEOUT_SECONDS,
            runtime=RuntimeKind.LOCAL,
            runs_dir=directory / "runs",
        )
        run = run_rollouts(request, load_settings())
    reader = RunReader(run.run_dir)
    assert disagreements(reader, is_complete=True) == ()
    (row,) = reader.trajectories().rows
    return row


@pytest.mark.parametrize(
    ("messages", "max_calls", "end", "reward"),
    [(SUBMITTED, 100, "submitted", 1.0), (SPENT, MOST_CALLS, "no tool calls left", 0.0)],
    ids=["submitted", "spent"],
)
def test_every_observation_is_the_one_that_is_expected_everywhere(
    messages: Sequence[Sequence[Call]], max_calls: int, end: str, reward: float, tmp_path: Path
) -> None:
    row = played(messages, max_calls, tmp_path)
    assert [message.content for message in row.messages if message.role == "tool"] == told(messages)
    assert (row.episode["end"], row.episode["tool_calls"]) == (end, count(messages))
    assert row.reward == reward, row.detail
