"""Nodes that are drained."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet_runs import no_sandbox_left, slow, start_run, wait_until
from tests.support.ray_cluster import RayCluster, ray_cluster

DRAIN = """
import sys, ray
from ray._raylet import GcsClient
from ray.core.generated import autoscaler_pb2

ray.init(sys.argv[1], log_to_driver=False)
[node] = [each["NodeID"] for each in ray.nodes() if each["Alive"] and str(each["NodeManagerPort"]) == sys.argv[2]]
print(GcsClient(sys.argv[1]).drain_node(node, autoscaler_pb2.DRAIN_NODE_REASON_PREEMPTION, "it goes", 0))
"""


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[RayCluster]:
    (tmp_path / "nodes").mkdir()
    with ray_cluster(tmp_path / "nodes", nodes=2) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_node_that_is_drained_finishes_what_it_has(own_cluster: RayCluster, tmp_path: Path) -> None:
    run = start_run(own_cluster, tmp_path / "run", slow(0.2, 200), "--concurrency", "2")
    run.wait_for_rows(8)
    drain(own_cluster, 0)
    wait_until(lambda: "is being drained" in run.told)
    no_sandbox_left([own_cluster.nodes[0]], 40)
    assert run.process.poll() is None
    assert Counter(each["reward"] for each in run.finish()["results"]) == {1.0: 200}
    assert "lost" not in run.told
    assert not any(row["retries"] for row in run.rows())
    no_sandbox_left(own_cluster.nodes)


def drain(cluster: RayCluster, number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRAIN, cluster.address, str(cluster.port_of(number))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("(True"), done.stdout + done.stderr
