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


def test_nodes_judge_while_this_process_trains_and_one_of_them_may_die(train: Train, tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    with ray_cluster(tmp_path / "nodes", nodes=2) as cluster:
        killed: list[int] = []

        def after_a_step(line: str) -> bool:
            if line.startswith("Step 1") and not killed:
                killed.extend(cluster.nodes[0].parts())
                for part in killed:
                    os.kill(part, signal.SIGKILL)
            return False

        options = ("--problems", "tiny:train", "--steps", "4", "--eval-problems", "0", "--batch-size", "32")
        done = train(*options, "--runtime", cluster.runtime, until=after_a_step)
        assert done.code == 0, done.stderr
        assert killed, done.stdout
        reader = RunReader(done.run)
        rows = reader.metrics().rows
        assert [row.step for row in rows if "loss" in row.metrics] == [0, 1, 2, 3]
        assert not any(row.metrics.get("unscorable") for row in rows)
        assert disagreements(reader, is_complete=True) == ()
        tags = {tag for row in reader.sandboxes().rows for tag in row.tags if tag.startswith("node-")}
        assert len(tags) == 2
        no_sandbox_left(cluster.nodes)
