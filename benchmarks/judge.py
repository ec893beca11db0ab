"""Measures the cost of the isolated judge: completions per second, against a plain run of the same code and asserts.

`python -m benchmarks.judge` alternates, on the same runtime and at the same concurrency:

- plain: a fresh sandbox per completion, `python -c` with solution and asserts in one text, reward from the exit code (a
  scheme that is easily fooled);
- judged: `sandrl.rewards.score` with the isolated judge on the same problems.

The median ratio is the figure to quote.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from benchmarks.reward_throughput import a_job, report_rates
from sandrl.problems import Completion, Problem, load_problems
from sandrl.rewards import Judge, Limits, ScoreOptions, score
from sandrl.sandboxes import Command, Connection, connect
from sandrl.settings import RuntimeKind, load_settings


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="bundled", help="problems with asserts and reference solutions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=2 * len(os.sched_getaffinity(0)) + 2)
    arguments = parser.parse_args()
    usable = [
        problem
        for problem in load_problems(arguments.problems).problems.values()
        if problem.tests and problem.reference and "sleep" not in problem.reference
    ]
    chosen = [usable[number % len(usable)] for number in range(arguments.count)]
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    judged_rate(chosen[: arguments.count // 4], arguments.concurrency, connection)  # warm
    plain, judged = [], []
    for _ in range(arguments.rounds):
        plain.append(plain_rate(chosen, arguments.concurrency, connection))
        judged.append(judged_rate(chosen, arguments.concurrency, connection))
    print(f"{arguments.rounds} rounds of {arguments.count} references of {arguments.problems}")
    print(f"  plain    {statistics.median(plain):7.1f}/s")
    report_rates("judged", judged, plain)


def plain_rate(problems: list[Problem], concurrency: int, connection: Connection) -> float:
    """Completions per second, the common way."""
    waiting = [
        Command(
            ("python", "-c", "\n".join([problem.reference or "", problem.setup, *problem.tests])), timeout_seconds=60
        )
        for problem in problems
    ]
    flying = 0
    with a_job(connection) as job:
        begun = time.monotonic()
        while waiting or flying:
            while waiting and flying < concurrency:
                job.launch(waiting.pop())
                flying += 1
            for launch in job.wait_any():
                assert job.collect(launch).exit_code == 0
                flying -= 1
    return len(problems) / (time.monotonic() - begun)


def judged_rate(problems: list[Problem], concurrency: int, connection: Connection) -> float:
    """Completions per second, by the isolated judge."""
    completions = [
        Completion(id=str(number), task_id=problem.task_id, code=problem.reference)
        for number, problem in enumerate(problems)
    ]
    options = ScoreOptions(limits=Limits(timeout_seconds=60), concurrency=concurrency, caching=False)
    by_id = {problem.task_id: problem for problem in problems}
    with a_job(connection) as job:
        begun = time.monotonic()
        report = score(completions, by_id, job=job, judge=Judge(), options=options)
    assert report.summary.total_reward == len(problems), report.summary
    return len(problems) / (time.monotonic() - begun)


if __name__ == "__main__":
    main()
