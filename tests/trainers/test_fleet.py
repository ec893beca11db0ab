"""A trainer whose completions are judged on the nodes of a Ray cluster."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from sandrl.runs import RunReader
from sandrl.runs.identity import disagreements
from tests.support.fleet_runs import no_sandbox_left
from tests.support.ray_cluster import ray_cluster
from tests.trainers.conftest import Train

STEPS = 24


def _nodes_seen(run: Path) -> set[str]:
    """The tags of the nodes that had sandboxes so far."""
    return {tag for row in RunReader(run).sandboxes().rows for tag in row.tags if tag.startswith("node-")}


def test_nodes_judge_while_this_process_trains_and_one_of_them_may_die(train: Train, tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    with ray_cluster(tmp_path / "nodes", nodes=2) as cluster:
        killed: list[int] = []
        run = tmp_path / "runs" / "run"

        def after_a_step(line: str) -> bool:
            # Nodes are ready one after the other, and the first may judge all of a batch as small as these.
            if line.startswith("Step") and not killed and len(_nodes_seen(run)) == 2:
                killed.extend(cluster.nodes[0].parts())
                for part in killed:
                    os.kill(part, signal.SIGKILL)
            return False

        options = ("--problems", "tiny:train", "--steps", str(STEPS), "--eval-problems", "0", "--batch-size", "32")
        done = train(*options, "--runtime", cluster.runtime, until=after_a_step)
        assert done.code == 0, done.stderr
        assert killed, done.stdout
        reader = RunReader(done.run)
        rows = reader.metrics().rows
        assert [row.step for row in rows if "loss" in row.metrics] == list(range(STEPS))
        assert not any(row.metrics.get("unscorable") for row in rows)
        assert disagreements(reader, is_complete=True) == ()
        assert len(_nodes_seen(done.run)) == 2
        no_sandbox_left(cluster.nodes)
