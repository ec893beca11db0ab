"""Measures how long trainer and sandboxes wait for each other, with and without `--overlap`.

`python -m benchmarks.overlap` trains the tiny policy on problems whose setup waits (`--seconds`), as programs do that
take a while, once for each value of the option, with one seed. It prints for each step, and on average, the seconds of
the step, the seconds in which the trainer waited for rewards, and the shares in which trainer and sandboxes were idle.
The first steps load what later ones find loaded, and are left out of the averages.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sandrl.config.words import Overlap
from sandrl.problems import tiny
from sandrl.runs import RunReader
from sandrl.runs.summary import Values

WARM_UP_STEPS = 2
SHOWN = ("step_seconds", "reward_seconds", "idle/trainer_share", "idle/sandbox_share")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--completions", type=int, default=32, help="completions per step")
    parser.add_argument("--concurrency", type=int, default=16, help="completions that are judged at once")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long the setup of each completion waits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--overlap", nargs="+", choices=[*Overlap], default=[*Overlap])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problems = Path(folder) / "problems.jsonl"
        write_problems(problems, arguments.seconds)
        found = {name: measure(arguments, Path(folder), problems, name) for name in arguments.overlap}
    middle = {name: averages(rows) for name, rows in found.items()}
    print(f"{'overlap':8} {'step':>7} " + " ".join(f"{each:>18}" for each in SHOWN))
    for name, rows in found.items():
        for number, row in enumerate(rows):
            print_row(name, str(number), row)
        print_row(name, "average", middle[name])
    first = arguments.overlap[0]
    for name in arguments.overlap[1:]:
        ratio = (middle[name]["step_seconds"] or math.nan) / (middle[first]["step_seconds"] or math.nan)
        print(f"a step with overlap {name} takes {ratio:.2f} of one with overlap {first}")


def print_row(name: str, step: str, row: Values) -> None:
    print(f"{name:8} {step:>7} " + " ".join(f"{row[each]:18.2f}" for each in SHOWN))


def averages(rows: Sequence[Values]) -> Values:
    rows = rows[WARM_UP_STEPS:]
    return {name: math.fsum(row[name] or 0.0 for row in rows) / len(rows) for name in SHOWN}


def write_problems(path: Path, seconds: float) -> None:
    """The tiny policy's problems with a setup that waits."""
    rows = []
    for task in tiny.tasks("train"):
        problem = task.to_problem()
        row = {
            "task_id": problem.task_id,
            "prompt": problem.prompt,
            "entry_point": problem.entry_point,
            "tests": problem.tests,
            "setup": f"import time; time.sleep({seconds})",
        }
        rows.append(json.dumps(row))
    path.write_text("\n".join(rows), encoding="utf-8")


def measure(arguments: argparse.Namespace, folder: Path, problems: Path, overlap: str) -> list[Values]:
    """Trains once; returns the metrics of the steps."""
    command = [sys.executable, "-m", "sandrl", "grpo", "--model", "tiny", "--problems", str(problems)]
    command += ["--extract", "exact", "--eval-problems", "0", "--save-steps", "1000", "--no-cache"]
    command += ["--timeout", str(arguments.seconds + 30), "--concurrency", str(arguments.concurrency)]
    command += ["--steps", str(arguments.steps), "--batch-size", str(arguments.completions)]
    command += ["--seed", str(arguments.seed), "--overlap", overlap]
    command += ["--runs-dir", str(folder / "runs"), "--run-name", overlap]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return [row.metrics for row in RunReader(folder / "runs" / overlap).metrics().rows if row.step < arguments.steps]


if __name__ == "__main__":
    main()
