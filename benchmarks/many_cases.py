"""Measures the cost of many cases of one problem, and the time saved if a completion ends at its first failure.

`python -m benchmarks.many_cases` alternates, one completion after the other on the same runtime:

- one: a completion of one problem with 2,000 cases;
- several: completions of 20 problems with 100 cases each, the same 2,000 inputs and the same program.

The ratio of the two is the figure to quote: above 1, cost grows faster than the number of cases. Sizes are also
printed, in bytes for each case: of the request, of the result's line in `--out`, and of its row.

`--problems FILE` scores an answer that prints nothing for each problem of a set, with all checks and without those
after the first failure, and prints the ratio of the processor time of its runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

from benchmarks.reward_throughput import a_job
from sandrl.problems import Case, Completion, Problem, load_problems
from sandrl.rewards import Judge, Limits, ScoreOptions, score
from sandrl.sandboxes import Connection, connect
from sandrl.scoring.document import result_document, to_line
from sandrl.scoring.records import Place, trajectory_row
from sandrl.scoring.summary import ScoreReport
from sandrl.settings import RuntimeKind, load_settings

CODE = "first, *others = map(int, input().split())\nprint(first + sum(others))\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--words", type=int, default=50, help="numbers in an input")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--problems", help="a set of programs for the end at a failure")
    arguments = parser.parse_args()
    connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
    if arguments.problems:
        print_saved(list(load_problems(arguments.problems).problems.values()), connection)
        return
    cases = [_case(number, arguments.words) for number in range(arguments.cases)]
    size = len(cases) // arguments.parts
    one = [Problem("one", "", cases=tuple(cases))]
    several = [Problem(f"part-{part}", "", cases=tuple(cases[part * size :][:size])) for part in range(arguments.parts)]
    seconds: dict[str, list[tuple[float, float]]] = {"one": [], "several": []}
    scored(several[:1], connection)  # warm
    for _ in range(arguments.rounds):
        for name, problems in (("several", several), ("one", one)):
            began = time.monotonic()
            report = scored(problems, connection)
            assert all(result.is_pass for result in report.results), report.results[0].detail
            cpu = sum(result.cpu_seconds for result in report.results)
            seconds[name].append((time.monotonic() - began, cpu))
    print(f"{arguments.rounds} rounds of {arguments.cases} cases, {arguments.words} numbers each")
    walls = {name: statistics.median(wall for wall, _ in found) for name, found in seconds.items()}
    cpus = {name: statistics.median(cpu for _, cpu in found) for name, found in seconds.items()}
    for name in seconds:
        print(f"  {name:8} {walls[name]:7.2f} s by the clock, {cpus[name]:7.2f} s of processor time in its programs")
    for what, found in (("clock", walls), ("processor time", cpus)):
        print(f"  one / several by {what}: {found['one'] / found['several']:.2f}")
    print_sizes(one[0], connection)


def _case(number: int, words: int) -> Case:
    numbers = [number, *range(words - 1)]
    return Case(" ".join(map(str, numbers)) + "\n", f"{sum(numbers)}\n")


def scored(
    problems: Sequence[Problem], connection: Connection, code: str = CODE, *, all_checks: bool = True
) -> ScoreReport:
    """A completion of each problem, one after the other."""
    completions = [Completion(problem.task_id, problem.task_id, code=code) for problem in problems]
    limits = Limits(timeout_seconds=3600)
    options = ScoreOptions(limits=limits, concurrency=1, caching=False, all_checks=all_checks)
    with a_job(connection) as job:
        return score(completions, problems, job=job, options=options)


def print_sizes(problem: Problem, connection: Connection) -> None:
    """What is sent and kept for each case of a problem."""
    completion = Completion("c", problem.task_id, code=CODE)
    [result] = scored([problem], connection).results
    judge = Judge()
    empty = Problem("empty", "", cases=problem.cases[:1])
    request, least = (len(judge.prepare(each, CODE, Limits()).command.stdin) for each in (problem, empty))
    count = problem.check_count
    given = sum(len(case.stdin) + len(case.stdout) for case in problem.cases) / count
    line = len(to_line(result_document(result)))
    row = len(trajectory_row(result, completion, Place("job")).model_dump_json())
    print(f"  bytes for each case: request {(request - least) / count:.0f}, of which texts {given:.0f};", end=" ")
    print(f"line of a result {line / count:.0f}, row {row / count:.0f}")


def print_saved(problems: Sequence[Problem], connection: Connection) -> None:
    """What an end at the first failure saves for a wrong answer."""
    programs = [problem for problem in problems if problem.cases]
    for code in ("", CODE):
        used, checks = [], []
        for all_checks in (True, False):
            report = scored(programs, connection, code or "pass", all_checks=all_checks)
            used.append(sum(result.cpu_seconds for result in report.results))
            checks.append(sum(check.status != "not_run" for each in report.results for check in each.checks))
            rewards = [result.reward for result in report.results]
        name = "prints nothing" if not code else "prints a sum"
        print(f"{len(programs)} problems, an answer that {name}: rewards {sum(each or 0 for each in rewards):g}")
        print(f"  all checks: {checks[0]} runs, {used[0]:.2f} s; up to the first failure: {checks[1]}, {used[1]:.2f} s")
        print(f"  ratio of processor time: {used[0] / used[1]:.1f}")


if __name__ == "__main__":
    main()
