"""A real training, reported to the real W&B, whose API is a stand-in."""

from __future__ import annotations

import pytest

from sandrl.runs import RunReader, SandboxEvent
from tests.support.wandb_api import wandb_api
from tests.trainers.conftest import SMALL, Train


def test_every_metric_and_every_table_is_in_wandb_at_its_step(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="needs the extra `wandb`")
    with wandb_api() as api:
        monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
        monkeypatch.setenv("WANDB_BASE_URL", api.url)
        done = train(
            *SMALL[:-4], "--eval-problems", "4", "--runtime", "local", "--steps", "2", "--report-to", "wandb",
            "--log-completions", "2",
        )  # fmt: skip
        assert done.code in (0, 1), done.stderr
        [run] = api.runs.values()
    reader = RunReader(done.run)
    rows = reader.metrics().rows
    assert [row.step for row in rows] == run.steps == [0, 1, 2]
    for row, sent in zip(rows, run.rows, strict=True):
        measured = {name: value for name, value in row.metrics.items() if value is not None}
        assert {name: sent.get(name) for name in measured} == pytest.approx(measured)
    assert run.config["model"] == {"value": "tiny"}
    trained = [row for row in reader.trajectories().rows if not row.held_out and row.step == 0]
    assert len(run.table(0, "table/completions")) == len(trained)
    assert all(row["prompt"] and row["status"] for row in run.table(2, "table/held_out"))
    assert "table/completions" not in run.rows[1]
    intents = [row for row in reader.sandboxes().rows if row.event is SandboxEvent.INTENT]
    assert intents
    assert all(any(tag.startswith("wandb-run") for tag in row.tags) for row in intents)
