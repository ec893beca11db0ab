"""Measures how fast `sandrl view` shows a large run, and how much memory its server takes.

`python -m benchmarks.view` makes a run of a million completions in a temporary directory (about 1.2 GB), starts the
real command on it and sends the requests of a page that is opened: the page, the list of runs, the run, its first rows.
It prints their time before anything is indexed (limit: 5 s), the time of indexing, the time of the same requests to a
new server after indexing (limit: 1 s), the times of lists, searches, groups and comparisons then, and the largest
resident memory of the servers (limit: 300 MiB). `--rows 100000` does so for a smaller run; there, nothing may take a
second. The run is compared with one of at most 100,000 completions.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from sandrl.runs import MetricsRow, RunOutcome, RunWriter

GROUP, STEP = 8, 512
MOST_COMPARED = 100_000
CODE = "def f(x):\n    total = 0\n    for i in range(x):\n        total += i\n    return total\n"
QUESTIONS = {
    "lowest rewards first": "rows?limit=50&order=reward",
    "far down in the slowest": "rows?limit=50&order=duration&desc=1&offset={middle}",
    "rows of one status": "rows?limit=50&status=timeout",
    "search for a problem": "rows?limit=50&search=problem-777",
    "search without a match": "rows?limit=50&search=nothing_has_this",
    "groups": "groups?limit=50",
    "groups that flip": "groups?limit=50&flipped=1",
    "one trajectory": "rows/0.7",
}
COMPARISONS = {"comparison, for the first time": "", "comparison, next page": "&offset=100"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sandrl-view-") as folder:
        make_run(Path(folder, "runs"), min(arguments.rows, MOST_COMPARED), "other")
        made = make_run(Path(folder, "runs"), arguments.rows)
        size = (made / "trajectories.jsonl").stat().st_size
        print(f"{arguments.rows:,} completions, {size / 1e6:,.0f} MB")
        measure(Path(folder), arguments.rows)


def measure(folder: Path, rows: int) -> dict[str, float]:
    """Asks two servers, one before and one after all is indexed.

    Args:
        folder: Holds `runs`.
        rows: How many completions the run has.

    Returns:
        Seconds by name, and `mebibytes`.
    """
    found: dict[str, float] = {}
    with _served(folder) as (client, pid):
        found["first view"], key = _opened(client)
        began = time.monotonic()
        for each in (key, "other"):
            while not client.get(f"api/runs/{each}").json()["index"]["is_complete"]:
                time.sleep(0.5)
        found["until all is indexed"] = time.monotonic() - began
        found["mebibytes"] = _resident_mebibytes(pid)
    with _served(folder) as (client, pid):
        found["view once indexed"], key = _opened(client)
        for name, question in QUESTIONS.items():
            found[name] = _seconds(client, f"api/runs/{key}/{question.format(middle=rows // 2)}")
        for name, end in COMPARISONS.items():
            found[name] = _seconds(client, f"api/compare?runs={key},other{end}")
        found["mebibytes"] = max(found["mebibytes"], _resident_mebibytes(pid))
    for name, value in found.items():
        print(f"{name:30} {value:8.0f} MiB" if name == "mebibytes" else f"{name:30} {value:8.2f} s")
    return found


def make_run(runs_dir: Path, rows: int, name: str = "large") -> Path:
    """Makes a run of training as a job leaves it.

    Args:
        runs_dir: Where to.
        rows: How many completions it has.
        name: Its name.
    """
    chance = random.Random(name)
    with RunWriter.create(runs_dir, command="grpo", job_id="job-1", name=name) as writer:
        # By hand: a million validated rows would take longer than what is measured.
        with (writer.path / "trajectories.jsonl").open("wb", buffering=1 << 20) as file:
            for number in range(rows):
                share = 0.3 + 0.5 * number / rows
                file.write(_row(number, chance.random() < share, chance.random()) + b"\n")
        for step in range(-(-rows // STEP)):
            metrics = {"reward/mean": 0.3 + 0.5 * step * STEP / rows, "completions": float(STEP), "step_seconds": 10.0}
            writer.append(MetricsRow(job_id="job-1", step=step, metrics=metrics))
        writer.finish(RunOutcome.FINISHED)
        return writer.path


def _row(number: int, is_pass: bool, luck: float) -> bytes:
    code = f"{CODE * 4}# {number}\n"
    task = number // GROUP % 4_000
    row = {
        "schema": 1, "time": "2026-01-01T00:00:00Z", "job_id": "job-1", "step": number // STEP, "index": number % STEP,
        "id": f"c{number}", "task_id": f"problem-{task}", "problem": f"{task:064x}", "reward": float(is_pass),
        "status": "passed" if is_pass else "timeout" if luck < 0.1 else "failed", "trust": "isolated",
        "passed": 4 * is_pass, "total": 4, "duration_seconds": round(luck, 3), "sandboxes": 1,
        "detail": "" if is_pass else "check 1 of 4: AssertionError", "completion": f"<answer>{code}</answer>",
        "code": code, "checks": [{"status": "passed" if is_pass else "failed"}] * 4,
    }  # fmt: skip
    return json.dumps(row).encode()


@contextmanager
def _served(folder: Path) -> Iterator[tuple[httpx.Client, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "sandrl", "view", str(folder / "runs"), "--port", "0", "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "SANDRL_CACHE_DIR": str(folder / "cache")},
    )
    try:
        assert process.stdout is not None
        link = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=link.partition("?")[0], follow_redirects=True, timeout=120) as client:
            client.params = client.params.set("token", link.partition("token=")[2])
            client.get("")
            client.params = client.params.remove("token")
            yield client, process.pid
    finally:
        process.terminate()
        process.communicate()


def _opened(client: httpx.Client) -> tuple[float, str]:
    """What a page asks when it is opened on a run: how long that takes, and the run's key."""
    began = time.monotonic()
    client.get("").raise_for_status()
    key = str(client.get("api/runs").json()["runs"][0]["key"])
    client.get(f"api/runs/{key}").raise_for_status()
    rows = client.get(f"api/runs/{key}/rows?limit=100").json()["rows"]
    assert rows, "nothing is shown"
    return time.monotonic() - began, key


def _seconds(client: httpx.Client, path: str) -> float:
    began = time.monotonic()
    client.get(path).raise_for_status()
    return time.monotonic() - began


def _resident_mebibytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


if __name__ == "__main__":
    main()
