"""A training on episodes of agents with a program of their own: every conversation of an episode is trained on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.art.test_art_train import Training, steps_of
from tests.support.tinker_server.process import TinkerServer

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


@pytest.fixture
def training(tiny_server: TinkerServer, tmp_path: Path) -> Training:
    return Training(tiny_server, tmp_path)


def test_every_conversation_of_an_agent_is_trained_on(training: Training) -> None:
    played = training.run(policy="trained", steps=1)
    branched = training.settings.runs_dir / "branched"
    shutil.copytree(played.run_dir, branched)
    file = branched / "trajectories.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        given = [{**each, "is_given": each["role"] == "assistant"} for each in row["messages"]]
        # Once more, once as a context in which nothing was sampled.
        row["branches"] = [{"messages": row["messages"]}, {"messages": given}]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    plain, twice = (
        steps_of(training.run(name=name, trajectories=str(run), policy="trained", steps=1))[0].metrics
        for name, run in (("plain", played.run_dir), ("twice", branched))
    )
    for name in ("train/tokens", "art/data/step_num_datums"):
        assert twice[name] == 2 * (plain[name] or 0)
        assert plain[name]
