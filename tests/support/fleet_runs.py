"""`sandrl reward` on a cluster, as a process that tests disturb."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.ray_cluster import RayCluster, RayNode

PROBLEM = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2", "assert f(2) == 3"]}
RIGHT = "def f(x):\n    return x + 1\n"


def slow(seconds: float, count: int) -> list[dict[str, Any]]:
    code = f"import time\ntime.sleep({seconds})\n{RIGHT}"
    return [{"task_id": "inc", "id": str(number), "code": f"{code}# {number}\n"} for number in range(count)]


@dataclass
class FleetRun:
    directory: Path
    process: subprocess.Popen[str]

    @property
    def path(self) -> Path:
        return self.directory / "runs" / "fleet"

    @property
    def told(self) -> str:
        return (self.directory / "stderr").read_text()

    def rows(self, name: str = "trajectories") -> list[dict[str, Any]]:
        try:
            lines = (self.path / f"{name}.jsonl").read_text().splitlines(keepends=True)
        except OSError:
            return []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_for_rows(self, count: int) -> None:
        wait_until(lambda: len(self.rows()) >= count or self.process.poll() is not None, 240.0)
        assert self.process.poll() is None, self.told

    def wait_for_nodes(self, nodes: Iterable[RayNode]) -> None:
        awaited = list(nodes)
        wait_until(lambda: all(node.sandboxes() for node in awaited) or self.process.poll() is not None, 240.0)
        assert self.process.poll() is None, self.told

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def finish(self, timeout_seconds: float = 180) -> dict[str, Any]:
        stdout, _ = self.process.communicate(timeout=timeout_seconds)
        document: dict[str, Any] = json.loads(stdout)
        return document


def start_run(
    cluster: RayCluster,
    directory: Path,
    completions: Iterable[Mapping[str, Any]],
    *words: str,
    problems: Path | None = None,
    runtime: str = "",
) -> FleetRun:
    directory.mkdir(exist_ok=True)
    (directory / "c.jsonl").write_text("".join(json.dumps(each) + "\n" for each in completions))
    (directory / "p.jsonl").write_text(json.dumps(PROBLEM) + "\n")
    given = ["c.jsonl", "--problems", str(problems or "p.jsonl"), "--runtime", runtime or cluster.runtime]
    command = [sys.executable, "-m", "sandrl", "reward", *given, "--json", "--run-name", "fleet", *words]
    environment = {**os.environ, "SANDRL_RUNS_DIR": str(directory / "runs")}
    with (directory / "stderr").open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=directory, env=environment
        )
    return FleetRun(directory, process)


def wait_until(holds: Callable[[], bool], seconds: float = 200.0) -> None:
    ends_at = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends_at, "it never came to hold"
        time.sleep(0.1)


def no_sandbox_left(nodes: Iterable[RayNode], seconds: float = 60.0) -> None:
    for node in nodes:
        wait_until(lambda node=node: not node.sandboxes(), seconds)  # type: ignore[misc]
