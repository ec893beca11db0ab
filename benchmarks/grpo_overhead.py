"""Measures the cost of rewards from sandboxes in a training run, against the same run with its rewards replayed.

`python -m benchmarks.grpo_overhead` trains the tiny policy twice with one seed. The first run executes completions in
sandboxes and keeps the verdicts; the second samples the same completions and finds every verdict, so it is the training
alone. The difference is the cost of sandboxes with a model that costs almost nothing. The share that the same rewards
would have of a real step, of 10 seconds by default, is also printed.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sandrl.runs import RunReader

# The first steps load what later ones find loaded.
WARM_UP_STEPS = 2


@dataclass(frozen=True)
class Measured:
    """One run, without its first steps.

    Attributes:
        steps: How many.
        seconds: Wall time of all of them.
        reward_seconds: Of that, time in calls for rewards.
        executions: How often code was executed for them.
        completions: Completions judged.
    """

    steps: int
    seconds: float
    reward_seconds: float
    executions: float
    completions: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=22)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real-step-seconds", type=float, default=10.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        live, replayed = (measure(Path(folder), name, arguments.steps, arguments.seed) for name in ("live", "replayed"))
    if replayed.executions:
        print(f"{replayed.executions:.0f} completions were also executed in the replayed run", file=sys.stderr)
    for name, run in (("live", live), ("replayed", replayed)):
        print(
            f"{name}: {run.steps} steps in {run.seconds:.1f} s, of these {run.reward_seconds:.1f} s in rewards,"
            f" {run.completions:.0f} completions in {run.executions:.0f} executions"
        )
    share = 1 - replayed.seconds / live.seconds
    print(f"share of rewards: {share:.2f} of the tiny run (by its own clock {live.reward_seconds / live.seconds:.2f})")
    per_step = live.reward_seconds / live.steps
    real = arguments.real_step_seconds
    print(
        f"a step of {real:g} s without rewards would take {real + per_step:.1f} s: {per_step / (real + per_step):.0%}"
    )


def measure(folder: Path, name: str, steps: int, seed: int) -> Measured:
    """Trains once, with the verdicts that are there."""
    options = ["--steps", str(steps), "--seed", str(seed), "--eval-problems", "0", "--cache", str(folder / "verdicts")]
    command = [sys.executable, "-m", "sandrl", "grpo", "--model", "tiny", *options]
    command += ["--runs-dir", str(folder / "runs"), "--run-name", name]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    rows = [row.metrics for row in RunReader(folder / "runs" / name).metrics().rows if row.step >= WARM_UP_STEPS]
    sums = {
        key: math.fsum(row.get(key) or 0.0 for row in rows)
        for key in ("step_seconds", "reward_seconds", "executions", "completions")
    }
    return Measured(len(rows), sums["step_seconds"], sums["reward_seconds"], sums["executions"], sums["completions"])


if __name__ == "__main__":
    main()
