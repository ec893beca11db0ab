"""Measures the cost of a fleet, with clusters of 1, 2 and 4 nodes on this machine, in one run.

`python -m benchmarks.fleet` prints:

- sleeping: the rate of completions that sleep, at the same bound per node, on each cluster, and its ratio to that of
  one node. Sleeping takes no processor time, so the processors of the one machine do not limit it.
- driver: the processor time of the process that has trivial completions scored, per completion, on a cluster and with
  the local runtime in the same rounds. Neither writes a run directory.

Rounds alternate, so that a change of the machine's speed affects all of them; medians are shown.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.ray_cluster import RayCluster, ray_cluster

SIZES = (1, 2, 4)


def score_here() -> None:
    """Scores batches as it is told on standard input; answers with seconds, and processor time of this process."""
    from sandrl.problems import Completion, Problem
    from sandrl.rewards import score
    from sandrl.sandboxes import SandboxRequest
    from sandrl.scoring.options import ScoreOptions
    from sandrl.settings import load_settings

    setup = json.loads(sys.stdin.readline())
    problem = {"p": Problem("p", "", tests=("assert f(1) == 2",))}
    sandboxes = SandboxRequest(runtime=setup["runtime"])
    connection = sandboxes.connect(load_settings())
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with sandboxes.job(connection, command="benchmark", max_lifetime_seconds=3600) as job:
        for line in sys.stdin:
            wanted = json.loads(line)
            code = f"import time\ntime.sleep({wanted['sleep']})\n" if wanted["sleep"] else ""
            rows = [
                Completion(str(n), "p", code=f"{code}def f(x): return x + 1  # {n} {time.monotonic_ns()}")
                for n in range(wanted["count"])
            ]
            began, cpu = time.monotonic(), _cpu_seconds()
            report = score(rows, problem, job=job, options=ScoreOptions(concurrency=setup["concurrency"]))
            seconds, cpu = time.monotonic() - began, _cpu_seconds() - cpu
            assert all(result.reward == 1.0 for result in report.results)
            print(json.dumps([seconds, cpu]), file=answers)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Driver:
    """A process that scores on one runtime."""

    def __init__(self, stack: ExitStack, runtime: str, concurrency: int | None) -> None:
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.fleet", "--here"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert self._process.stdin is not None
        stack.callback(self._process.stdin.close)
        self._write({"runtime": runtime, "concurrency": concurrency})

    def _write(self, document: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        print(json.dumps(document), file=self._process.stdin, flush=True)

    def score(self, count: int, sleep: float = 0.0) -> tuple[float, float]:
        """Scores so many; returns seconds by the clock, and of processor time."""
        self._write({"count": count, "sleep": sleep})
        assert self._process.stdout is not None
        seconds, cpu = json.loads(self._process.stdout.readline())
        return seconds, cpu


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bound", type=int, default=4, help="completions at once on each node")
    parser.add_argument("--sleep", type=float, default=1.0)
    parser.add_argument("--per-place", type=int, default=8, help="completions that each place of a node gets")
    parser.add_argument("--trivial", type=int, default=1000, help="completions of a round for the driver's cost")
    arguments = parser.parse_args()
    if arguments.here:
        score_here()
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clusters: dict[int, RayCluster] = {}
        for size in SIZES:
            (folder / str(size)).mkdir()
            clusters[size] = stack.enter_context(ray_cluster(folder / str(size), nodes=size))
        drivers = {size: Driver(stack, cluster.runtime, arguments.bound) for size, cluster in clusters.items()}
        _sleeping(drivers, arguments)
        fleet, local = Driver(stack, clusters[2].runtime, None), Driver(stack, "local", None)
        _cost(fleet, local, arguments)


def _sleeping(drivers: dict[int, Driver], arguments: argparse.Namespace) -> None:
    rates: dict[int, list[float]] = {size: [] for size in SIZES}
    for driver in drivers.values():
        driver.score(2 * arguments.bound)  # its nodes are ready after that
    for _ in range(arguments.rounds):
        for size, driver in drivers.items():
            count = size * arguments.bound * arguments.per_place
            seconds, _ = driver.score(count, arguments.sleep)
            rates[size].append(count / seconds)
    one = statistics.median(rates[1])
    print(f"sleeping {arguments.sleep:g} s, {arguments.bound} at once on a node")
    for size in SIZES:
        rate = statistics.median(rates[size])
        print(f"  {size} nodes  {rate:6.2f}/s  {rate / one:5.2f} times one node")


def _cost(fleet: Driver, local: Driver, arguments: argparse.Namespace) -> None:
    spent: dict[str, list[float]] = {"fleet": [], "local": []}
    for driver in (fleet, local):
        driver.score(64)
    for _ in range(arguments.rounds):
        for name, driver in (("fleet", fleet), ("local", local)):
            _, cpu = driver.score(arguments.trivial)
            spent[name].append(1000 * cpu / arguments.trivial)
    here, there = statistics.median(spent["local"]), statistics.median(spent["fleet"])
    print("processor time of the driver per completion, without a run directory")
    print(f"  local runtime  {here:.2f} ms")
    print(f"  2 nodes        {there:.2f} ms  ({there - here:+.2f} ms)")


if __name__ == "__main__":
    main()
