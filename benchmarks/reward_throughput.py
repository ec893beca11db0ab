"""Completions per second in fresh sandboxes, against a bare, unisolated pool of `python -c`.

`python -m benchmarks.reward_throughput` prints, for trivial programs and for 100 ms of processor work each:

- bare: `subprocess` running `python -c PROGRAM`, the best of several pool sizes, no isolation, no judging;
- sandbox: a fresh sandbox per program through the SDK and the local runtime, boot and end included, by the same launch
  path as any `exec` (the cost of a reward without its judge);
- reward: `sandrl.rewards.score`, everything that `sandrl reward` does with a completion.

Rounds alternate, so that a change of the machine's speed affects all three; the median ratio is the figure to quote.
Then come the latency of one warm completion, and `--soak N` completions at concurrency 32 with the processes,
descriptors and memory that remain.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandrl.problems import Completion, Problem
from sandrl.rewards import Limits, ScoreOptions, score
from sandrl.runtime import daemon
from sandrl.sandboxes import Command, Connection, Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings, load_settings

TRIVIAL = "done = True"
WORK = "import time\ndone = True\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass"
SOAK_CONCURRENCY = 32
LIFETIME_SECONDS = 600.0


@dataclass(frozen=True)
class Cost:
    """Milliseconds of processor time per completion, by part."""

    client: float
    server: float
    sandbox: float

    def __str__(self) -> str:
        total = self.client + self.server + self.sandbox
        return f"client {self.client:.1f} + server {self.server:.1f} + sandbox {self.sandbox:.1f} = {total:.1f} ms"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds of each workload")
    parser.add_argument("--concurrency", type=int, default=2 * len(os.sched_getaffinity(0)) + 2)
    parser.add_argument("--soak", type=int, default=1000, help="completions of the soak; 0: no soak")
    arguments = parser.parse_args()
    settings = load_settings()
    connection = connect(settings, runtime=RuntimeKind.LOCAL)
    print(f"{os.cpu_count()} processors, isolation {connection.isolation}, concurrency {arguments.concurrency}")
    compare("trivial programs", TRIVIAL, 200, arguments.rounds, arguments.concurrency, connection, settings)
    compare("100 ms of work each", WORK, 60, arguments.rounds, arguments.concurrency, connection, settings)
    latency(connection)
    if arguments.soak:
        soak(arguments.soak, connection, settings)


@contextmanager
def a_job(connection: Connection) -> Iterator[Job]:
    """A job that leaves no run directory."""
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=LIFETIME_SECONDS) as job:
        yield job


def bare_rate(program: str, count: int, size: int) -> float:
    """Programs per second from a pool of `size` without any isolation."""

    def run(_: int) -> None:
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    begun = time.monotonic()
    with ThreadPoolExecutor(size) as pool:
        list(pool.map(run, range(count)))
    return count / (time.monotonic() - begun)


def sandbox_rate(program: str, count: int, concurrency: int, connection: Connection) -> float:
    """Programs per second, each in a fresh sandbox, as a judge's command is run."""
    command = Command(("python", "-I", "-S", "-c", program), timeout_seconds=60)
    with a_job(connection) as job:
        begun = time.monotonic()
        launched = flying = 0
        while launched < count or flying:
            while launched < count and flying < concurrency:
                job.launch(command)
                launched += 1
                flying += 1
            for launch in job.wait_any():
                assert job.collect(launch).exit_code == 0
                flying -= 1
    return count / (time.monotonic() - begun)


def reward_rate(program: str, count: int, concurrency: int, connection: Connection) -> float:
    """Completions per second, scored."""
    problem = Problem(task_id="bench", prompt="", tests=("assert done",))
    completions = [Completion(id=str(number), task_id="bench", code=program) for number in range(count)]
    options = ScoreOptions(limits=Limits(timeout_seconds=60), concurrency=concurrency, caching=False)
    with a_job(connection) as job:
        begun = time.monotonic()
        report = score(completions, {"bench": problem}, job=job, options=options)
    rate = count / (time.monotonic() - begun)
    assert report.summary.total_reward == count, report.summary
    return rate


def cost_of(work: Callable[[], float], count: int, settings: Settings) -> tuple[float, Cost]:
    """The rate `work` returns, and where processor time went meanwhile."""
    before, client = daemon.status(settings.state_dir), _own_cpu_seconds()
    rate = work()
    after, client_after = daemon.status(settings.state_dir), _own_cpu_seconds()
    scale = 1000 / count
    return rate, Cost(
        (client_after - client) * scale,
        (after.server_cpu_seconds - before.server_cpu_seconds) * scale,
        (after.sandbox_cpu_seconds - before.sandbox_cpu_seconds) * scale,
    )


def _own_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def compare(
    title: str, program: str, count: int, rounds: int, concurrency: int, connection: Connection, settings: Settings
) -> None:
    """Alternate the three ways and print rates and ratios."""
    processors = len(os.sched_getaffinity(0))
    sizes = (processors, processors + 1, 2 * processors)
    reward_rate(program, count // 4, concurrency, connection)  # warm
    bare, sandbox, reward = [], [], []
    costs: list[Cost] = []
    for _ in range(rounds):
        bare.append(max(bare_rate(program, count, size) for size in sizes))
        sandbox.append(sandbox_rate(program, count, concurrency, connection))
        rate, cost = cost_of(lambda: reward_rate(program, count, concurrency, connection), count, settings)
        reward.append(rate)
        costs.append(cost)
    print(f"\n{title} ({rounds} rounds of {count})")
    print(f"  bare     {statistics.median(bare):7.1f}/s")
    report_rates("sandbox", sandbox, bare)
    report_rates("reward", reward, bare)
    middle = sorted(costs, key=lambda cost: cost.client + cost.server + cost.sandbox)[len(costs) // 2]
    print(f"  processor time per reward: {middle}")


def report_rates(name: str, rates: list[float], baselines: list[float]) -> None:
    """Print the median rate and, round by round, its ratio to the baseline's."""
    ratios = [rate / baseline for rate, baseline in zip(rates, baselines, strict=True)]
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    print(f"  {name:8} {statistics.median(rates):7.1f}/s   ratio {statistics.median(ratios):.2f} ({spread})")


def latency(connection: Connection, count: int = 50) -> None:
    """One completion at a time, from create to verdict, with the daemon warm."""
    problem = Problem(task_id="bench", prompt="", tests=("assert add(2, 3) == 5",))
    completion = Completion(id="1", task_id="bench", code="def add(a, b):\n    return a + b")
    seconds: list[float] = []
    finished = 0.0

    def on_result(_: object) -> None:
        nonlocal finished
        finished = time.monotonic()

    with a_job(connection) as job:
        for _ in range(count):
            begun = time.monotonic()
            score([completion], {"bench": problem}, job=job, on_result=on_result)
            seconds.append(finished - begun)
            time.sleep(0.02)  # one at a time, as a person would
    milliseconds = sorted(1000 * value for value in seconds)
    print(f"\none warm completion, create to verdict: median {statistics.median(milliseconds):.1f} ms", end="")
    print(f" (fastest {milliseconds[0]:.1f}, 90% below {milliseconds[int(0.9 * count)]:.1f})")


def soak(count: int, connection: Connection, settings: Settings) -> None:
    """Many completions at concurrency 32, and what they left behind."""
    problem = Problem(task_id="bench", prompt="", tests=("assert add(2, 3) == 5",))
    code = "def add(a, b):\n    return a + b"
    completions = [Completion(id=str(number), task_id="bench", code=code) for number in range(count)]
    options = ScoreOptions(concurrency=SOAK_CONCURRENCY, caching=False)

    def run(some: list[Completion]) -> None:
        with a_job(connection) as job:
            report = score(some, {"bench": problem}, job=job, options=options)
        assert len(report.results) == len(some)
        assert report.summary.total_reward == len(some), report.summary

    def snapshot() -> tuple[int, int, int, int, int, int]:
        status = daemon.status(settings.state_dir)
        own = Path("/proc/self/statm").read_text(encoding="ascii").split()
        page_kib = os.sysconf("SC_PAGE_SIZE") // 1024
        return (
            status.sandboxes,
            status.processes,
            status.open_descriptors,
            status.resident_bytes >> 10,
            len(os.listdir("/proc/self/fd")),
            int(own[1]) * page_kib,
        )

    names = ("sandboxes", "daemon processes", "daemon descriptors", "daemon KiB", "client descriptors", "client KiB")
    run(completions[: count // 4])  # what caches and pools take once
    time.sleep(1)
    before = snapshot()
    begun = time.monotonic()
    run(completions)
    rate = count / (time.monotonic() - begun)
    print(f"\n{count} completions at concurrency {SOAK_CONCURRENCY}: {count} results, {rate:.1f}/s")
    time.sleep(1)
    for name, first, last in zip(names, before, snapshot(), strict=True):
        print(f"  {name:20} {first:8} before, {last:8} after ({last - first:+})")


if __name__ == "__main__":
    main()
