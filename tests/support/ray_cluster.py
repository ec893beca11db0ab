"""Clusters of several nodes on this machine, each with a state directory, and so with a local runtime, of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandrl.runtime import daemon

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_raylet_start_wait_time_s": "120",  # on a busy machine, Ray's own 30 s are too few
}


@dataclass
class RayNode:
    number: int
    state_dir: Path
    is_alive: bool = True

    def sandboxes(self) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "sandrl", "sandboxes", "ls", "--json"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "SANDRL_STATE_DIR": str(self.state_dir)},
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)["sandboxes"]
        return found

    def parts(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                command = (entry / "cmdline").read_bytes()
                if (
                    b"ray::Actor" in command
                    and f"SANDRL_STATE_DIR={self.state_dir}\0".encode() in (entry / "environ").read_bytes() + b"\0"
                ):
                    found.append(int(entry.name))
        return found

    def stop_runtime(self) -> None:
        daemon.stop(self.state_dir)

    def kill_runtime(self) -> None:
        """Kills its local runtime, as the end of a machine would."""
        found = daemon.status(self.state_dir)
        if found.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)


@dataclass
class RayCluster:
    address: str
    directory: Path
    process: subprocess.Popen[str]
    nodes: list[RayNode] = field(default_factory=list)

    @property
    def runtime(self) -> str:
        return f"ray:{self.address}"

    def add_node(self, cpus: int = 2, **environment: str) -> RayNode:
        state_dir = self.directory / f"node-{len(self.nodes)}"
        state_dir.mkdir(mode=0o700)
        variables = json.dumps({"SANDRL_STATE_DIR": str(state_dir), **environment})
        node = RayNode(int(self._ask(f"add {cpus} {variables}")), state_dir)
        self.nodes.append(node)
        return node

    def kill(self, node: RayNode, *, with_runtime: bool = True) -> None:
        """Kills a node's raylet and, as if the machine were gone, its local runtime."""
        if with_runtime:
            node.kill_runtime()
        node.is_alive = False
        self._ask(f"remove {node.number}")

    def port_of(self, number: int) -> int:
        return int(self._ask(f"port {number}"))

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        assert answer, "the cluster has ended"
        return answer


@contextmanager
def ray_cluster(directory: Path, nodes: int, cpus: int = 2) -> Iterator[RayCluster]:
    """A cluster with a head that scores nothing, and so many nodes."""
    log = directory / "cluster.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ray_nodes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **_ENVIRONMENT},
        )
    assert process.stdout is not None
    cluster = RayCluster("", directory, process)
    try:
        cluster.address = process.stdout.readline().strip()
        assert cluster.address, log.read_text()
        for _ in range(nodes):
            cluster.add_node(cpus)
        yield cluster
    finally:
        with suppress(OSError, AssertionError):
            cluster._ask("end")
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        for node in cluster.nodes:
            node.stop_runtime()
