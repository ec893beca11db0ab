"""A real training, reported to the real W&B, offline, and read back."""

from __future__ import annotations

import pytest

from sandrl.runs import RunReader, SandboxEvent
from tests.support.wandb_file import read_offline_run
from tests.trainers.conftest import SMALL, Train


def test_every_metric_is_in_wandb_at_its_step(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="needs the extra `wandb`")
    monkeypatch.setenv("WANDB_MODE", "offline")
    done = train(*SMALL[:-4], "--eval-problems", "4", "--runtime", "local", "--steps", "2", "--report-to", "wandb")
    assert done.code in (0, 1), done.stderr
    reader = RunReader(done.run)
    history, config = read_offline_run(done.run)
    rows = reader.metrics().rows
    assert [row.step for row in rows] == [0, 1, 2]
    for row in rows:
        measured = {name: value for name, value in row.metrics.items() if value is not None}
        assert {name: history[row.step].get(name) for name in measured} == measured
    assert config["model"] == "tiny"
    intents = [row for row in reader.sandboxes().rows if row.event is SandboxEvent.INTENT]
    assert intents
    assert all(any(tag.startswith("wandb-run") for tag in row.tags) for row in intents)
