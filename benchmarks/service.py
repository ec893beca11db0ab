"""Compares `sandrl serve` with scoring in the same process, in one run.

`python -m benchmarks.service` prints, for trivial completions that all differ:

- in process: `Scorer.score` on batches, in a separate process, whose processor time is measured;
- /v1/score: the same batches over HTTP, from a client that uses only the standard library, and the processor time of
  the service;
- /run_code: programs that print one line, one program per request, from many threads.

Rounds alternate, so that a change of the machine's speed affects all. Rates are completions per second, and
`added` is processor time of the service less that of scoring in process, per completion; medians are shown.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sandrl.problems import Completion, Problem
from sandrl.sandboxes import SandboxRequest
from sandrl.scoring.options import ScoreOptions
from sandrl.scoring.scorer import Scorer
from sandrl.settings import load_settings

TOKEN = "token-of-the-benchmark"
ROW = {"task_id": "inc", "prompt": "Add one.", "tests": ["assert f(1) == 2"]}
PROBLEM = Problem("inc", "Add one.", tests=("assert f(1) == 2",))
TICKS = os.sysconf("SC_CLK_TCK")


def code_of(number: int) -> str:
    """A completion that is like no other."""
    return f"def f(x): return x + 1  # {number} {os.getpid()} {time.monotonic_ns()}"


def score_here(pipe: Pipe) -> None:
    """Scores batches in this process, as it is told to."""
    sandboxes = SandboxRequest()
    connection = sandboxes.connect(load_settings())
    with sandboxes.job(connection, command="benchmark", max_lifetime_seconds=3600) as job, Scorer(job) as scorer:
        while (wanted := pipe.recv()) is not None:
            batches, size = wanted
            answers = [
                [(Completion(str(n), "inc", code=code_of(n)), PROBLEM) for n in range(size)] for _ in range(batches)
            ]
            began, cpu = time.monotonic(), time.process_time()
            for batch in answers:
                results = scorer.score(batch, ScoreOptions())
                assert all(result.reward == 1.0 for result in results)
            pipe.send((time.monotonic() - began, time.process_time() - cpu))


@contextmanager
def a_service() -> Iterator[tuple[str, int]]:
    """A service on a free port: its address, and the id of its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sandrl", "serve", "--port", "0"],
        env={**os.environ, "SANDRL_SERVICE_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[3], process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_of(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def ask(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> Any:
    """One request; returns what was answered."""
    connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    content = response.read()
    assert response.status == 200, content
    return json.loads(content)


def score_there(url: str, pid: int, batches: int, size: int) -> tuple[float, float]:
    """Seconds by the clock, and of the service's processor time."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    bodies = [
        {"completions": [{"task_id": "inc", "code": code_of(n)} for n in range(size)], "problems": [ROW]}
        for _ in range(batches)
    ]
    began, cpu = time.monotonic(), cpu_of(pid)
    for body in bodies:
        assert ask(connection, "/v1/score", body)["summary"]["total_reward"] == size
    return time.monotonic() - began, cpu_of(pid) - cpu


def run_there(url: str, pid: int, count: int, threads: int) -> tuple[float, float]:
    """The same for programs, one in a request, from many threads."""
    parts = urlsplit(url)

    def work(first: int) -> None:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        for number in range(first, count, threads):
            answer = ask(connection, "/run_code", {"code": f"print({number})", "language": "python"})
            assert answer["run_result"]["stdout"] == f"{number}\n"

    began, cpu = time.monotonic(), cpu_of(pid)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return time.monotonic() - began, cpu_of(pid) - cpu


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds")
    parser.add_argument("--batches", type=int, default=10, help="batches in a round")
    parser.add_argument("--size", type=int, default=64, help="completions in a batch")
    parser.add_argument("--threads", type=int, default=32, help="clients of /run_code at once")
    arguments = parser.parse_args()
    count = arguments.batches * arguments.size
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    scoring = context.Process(target=score_here, args=(there,), daemon=True)
    scoring.start()

    def in_process() -> tuple[float, float]:
        here.send((arguments.batches, arguments.size))
        found: tuple[float, float] = here.recv()
        return found

    with a_service() as (url, pid):
        ways: dict[str, Callable[[], tuple[float, float]]] = {
            "in process": in_process,
            "/v1/score": lambda: score_there(url, pid, arguments.batches, arguments.size),
            "/run_code": lambda: run_there(url, pid, count, arguments.threads),
        }
        for way in ways.values():
            way()
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, way in ways.items():
                found[name].append(way())
    here.send(None)
    scoring.join()
    own = statistics.median(cpu for _, cpu in found["in process"]) / count * 1000
    print(f"{os.cpu_count()} processors, {arguments.rounds} rounds of {count} completions, batches of {arguments.size}")
    for name, rounds in found.items():
        rate = statistics.median(count / wall for wall, _ in rounds)
        ratio = statistics.median(base / wall for (base, _), (wall, _) in zip(found["in process"], rounds, strict=True))
        cpu = statistics.median(cpu for _, cpu in rounds) / count * 1000
        print(f"{name:>11}: {rate:6.0f}/s, {ratio:.2f} of in process; {cpu:.2f} ms of processor time, {cpu - own:+.2f}")


if __name__ == "__main__":
    main()
